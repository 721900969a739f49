package rest_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

const conversations = "/api/v1/conversations/"

// logPage is a page of a run's log.
type logPage struct {
	Data []struct {
		EventID int64 `json:"event_id"`
		Event   json.RawMessage
	}
	PageInfo struct{ Self, First, Next, Prev *string } `json:"page_info"`
}

func TestLogOfARunIsReadPageByPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := s.start(map[string]any{"agent": "echo", "content": "a b c", "threadId": "my/own", "runId": "a/b"})
	s.await("a/b", "COMPLETED")
	for _, conversation := range []string{r.ConversationID, "my%2Fown"} {
		path := conversations + conversation + "/agent-runs/a%2Fb"
		var ids []int64
		for after := "0"; ; {
			page := as[logPage](s.do("GET", path+"/events?limit=2&after_event_id="+after, nil), http.StatusOK)
			if *page.PageInfo.Self != after || page.PageInfo.First != nil || page.PageInfo.Prev != nil {
				t.Errorf("page_info %+v", page.PageInfo)
			}
			for _, e := range page.Data {
				ids = append(ids, e.EventID)
			}
			if page.PageInfo.Next == nil {
				break
			}
			after = *page.PageInfo.Next
		}
		whole := as[logPage](s.do("GET", path+"/events", nil), http.StatusOK)
		if len(whole.Data) != len(ids) || len(ids) != 7 {
			t.Fatalf("%d events, %d page by page", len(whole.Data), len(ids))
		}
		for i, e := range whole.Data {
			if e.EventID != ids[i] {
				t.Errorf("event %d is %d, %d page by page", i, e.EventID, ids[i])
			}
		}
		snap := as[struct {
			After  int64 `json:"after_event_id"`
			Events []struct {
				EventID *int64 `json:"event_id"`
			}
		}](s.do("GET", path+"/snapshot", nil), http.StatusOK)
		if last := len(snap.Events) - 1; snap.After != ids[6] || *snap.Events[0].EventID != ids[0] || *snap.Events[last].EventID != ids[6] {
			t.Errorf("the snapshot is %+v", snap)
		}
	}
}

func TestLogOfARunRefusesBadQueries(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := s.start(map[string]any{"agent": "echo", "content": "a", "runId": "a"})
	s.await("a", "COMPLETED")
	const limit, cursor, beyond = "limit must be a number from 1 to 500", "after_event_id must be the id of an event, or 0", "The cursor 99 is beyond the log's end, 7"
	for query, want := range map[string][2]string{
		"limit=0": {"invalid_limit", limit}, "limit=501": {"invalid_limit", limit}, "limit=x": {"invalid_limit", limit},
		"after_event_id=x": {"invalid_cursor", cursor}, "after_event_id=-1": {"invalid_cursor", cursor},
		"after_event_id=latest": {"invalid_cursor", cursor}, "after_event_id=99999999999999999999": {"invalid_cursor", cursor},
		"after_event_id=99": {"invalid_cursor", beyond},
	} {
		s.do("GET", conversations+r.ConversationID+"/agent-runs/a/events?"+query, nil).refused(http.StatusBadRequest, want[0], want[1])
	}
}

func TestLogOfARunIsFoundInItsConversationAlone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	theirs := s.bobs("secret")
	mine := s.start(map[string]any{"agent": "echo", "content": "a", "runId": "mine", "threadId": "main"})
	other := s.start(map[string]any{"agent": "echo", "content": "a", "runId": "other"})
	for _, end := range []string{"/events", "/snapshot"} {
		for _, run := range []string{"bobs", "mine", "x"} {
			s.do("GET", conversations+theirs.ConversationID+"/agent-runs/"+run+end, nil).refused(404, "not_found", "Thread not found")
		}
		for _, run := range []string{"bobs", "other", "x"} {
			s.do("GET", conversations+mine.ConversationID+"/agent-runs/"+run+end, nil).refused(404, "not_found", "Agent run not found")
		}
		s.do("GET", conversations+other.ConversationID+"/agent-runs/other"+end+"?projectId=elsewhere", nil).refused(404, "not_found", "Project not found")
	}
}

// All events of a run are there in the projection seed, pages and ids as in the other.
func TestLogOfARunInTheSeedProjection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := s.start(map[string]any{"agent": "echo", "content": "a b c", "threadId": "all", "runId": "all"})
	s.await("all", "COMPLETED")
	path := conversations + r.ConversationID + "/agent-runs/all/events?limit=4"
	var ids []int64
	types := map[string]int{}
	for after := "0"; ; {
		page := as[logPage](s.do("GET", path+"&projection=seed&after_event_id="+after, nil), http.StatusOK)
		for _, e := range page.Data {
			var ev struct{ Type, ThreadID string }
			if err := json.Unmarshal(e.Event, &ev); err != nil || ev.ThreadID != "all" {
				t.Errorf("%s: %v", e.Event, err)
			}
			ids = append(ids, e.EventID)
			types[ev.Type]++
		}
		if page.PageInfo.Next == nil {
			break
		}
		after = *page.PageInfo.Next
	}
	for i, id := range ids {
		if id != int64(i+1) {
			t.Fatalf("the ids are %v", ids)
		}
	}
	if types["STEP_STARTED"] != 1 || types["STEP_FINISHED"] != 1 || types["RUN_FINISHED"] != 1 {
		t.Errorf("the events are %v", types)
	}
	if res := s.do("GET", path+"&projection=agui", nil); res.Status != http.StatusBadRequest {
		t.Errorf("another projection: %d", res.Status)
	}
}
