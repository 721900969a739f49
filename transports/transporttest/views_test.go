package transporttest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/batonrun/baton/transports/transporttest"
)

// readEvents reads the thread's events as an EventSource does.
func readEvents(t *testing.T, s *transporttest.Scene, after int64) []transporttest.Event {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+"/api/v1/agent/runs/"+url.PathEscape(s.Thread)+"/events", nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	return readStream(t, req)
}

// readAnswers reads what the runs' requests are answered with, when they are made again at a door.
func readAnswers(path string) func(*testing.T, *transporttest.Scene, int64) []transporttest.Event {
	return func(t *testing.T, s *transporttest.Scene, _ int64) []transporttest.Event {
		t.Helper()
		var all []transporttest.Event
		for _, run := range s.Started() {
			door := s.URL + path
			if strings.HasSuffix(path, "/") {
				door += run.Agent + run.Workflow
			}
			req, err := http.NewRequest(http.MethodPost, door, bytes.NewReader(run.Body))
			if err != nil {
				t.Error(err)
				return nil
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "text/event-stream")
			all = append(all, readStream(t, req)...)
		}
		return all
	}
}

// readStream reads the frames of an answer that have an id and data.
func readStream(t *testing.T, req *http.Request) []transporttest.Event {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	if res.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %s", req.Method, req.URL, res.Status)
		return nil
	}
	var all []transporttest.Event
	var ev transporttest.Event
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		name, value, _ := strings.Cut(in.Text(), ": ")
		switch name {
		case "id":
			if ev.ID, err = strconv.ParseInt(value, 10, 64); err != nil {
				t.Errorf("id %q", value)
			}
		case "data":
			ev.Body = transporttest.Decode([]byte(value))
		case "":
			if ev.Body != nil {
				all = append(all, ev)
			}
			ev = transporttest.Event{}
		}
	}
	if err := in.Err(); err != nil {
		t.Error(err)
	}
	return all
}

// readPages reads the log run by run as a tool does, in pages of 7.
func readPages(t *testing.T, s *transporttest.Scene, after int64) []transporttest.Event {
	t.Helper()
	var all []transporttest.Event
	end := s.End()
	for _, run := range s.Started() {
		for next := strconv.FormatInt(after, 10); next != ""; {
			res, err := http.Get(fmt.Sprintf("%s/api/v1/conversations/%s/agent-runs/%s/events?after_event_id=%s&limit=7",
				s.URL, s.ConversationID, run.ID, next))
			if err != nil {
				t.Error(err)
				return nil
			}
			var page page
			err = json.NewDecoder(res.Body).Decode(&page)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s: %s, %v", run.ID, res.Status, err)
				return nil
			}
			all, next = page.add(all)
		}
	}
	return transporttest.Through(end, all)
}

// page is an answer of get_agent_run_events, by whichever transport.
type page struct {
	Data []struct {
		EventID int64 `json:"event_id"`
		Event   any   `json:"event"`
	} `json:"data"`
	PageInfo struct {
		Next *string `json:"next"`
	} `json:"page_info"`
}

// add appends the page's events and returns where the next page begins, "" for nowhere.
func (p *page) add(all []transporttest.Event) (_ []transporttest.Event, next string) {
	for _, ev := range p.Data {
		all = append(all, transporttest.Event{ID: ev.EventID, Body: ev.Event})
	}
	if p.PageInfo.Next != nil {
		next = *p.PageInfo.Next
	}
	return all, next
}
