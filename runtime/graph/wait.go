package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Waits reports whether the node has a wait.
func (n *Node) Waits() bool { return n.Wait != plugins.NodeWait{} }

// Waited returns the output of a node that has waited for an event.
func Waited(got plugins.Received) json.RawMessage {
	if got.Expired {
		return json.RawMessage(`{"status":"expired","result":null}`)
	}
	text := string(got.Payload)
	_ = json.Unmarshal(got.Payload, &text)
	return data.MustJSON(&agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text, Result: got.Payload})
}

// Until returns the end of the node's wait, if it begins now.
func (n *Node) Until(ctx context.Context, env func() map[string]any, now time.Time) (time.Time, error) {
	if n.wait == nil {
		return now.Add(n.Wait.For), nil
	}
	v, err := n.wait.Run(ctx, env())
	if err != nil && ctx.Err() != nil {
		return now, context.Cause(ctx)
	}
	var until time.Time
	if err == nil {
		until, err = timeOf(v, now)
	}
	if err != nil {
		return now, &plugins.Error{Code: "bad_wait", Message: fmt.Sprintf("Node %s: the wait failed: %s", n.ID, firstLine(err))}
	}
	return until, nil
}

var (
	clock   = regexp.MustCompile(`^([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))? +(\S+)$`)
	errTime = errors.New("want an RFC 3339 time, a time of day with a zone such as 09:00 Europe/Berlin, or a duration such as 1d12h")
)

// timeOf returns the time that a value of an expression means now.
func timeOf(v any, now time.Time) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v, nil
	case time.Duration:
		return now.Add(v), nil
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t, nil
		}
		if d, err := plugins.ParseDuration(v); err == nil {
			return now.Add(d), nil
		}
		if m := clock.FindStringSubmatch(v); m != nil && m[4] != "Local" {
			return nextClock(m, now)
		}
	}
	return now, errTime // the value may be a secret
}

// nextClock returns the next time after now with the hour, minute, second and zone of a match of clock.
func nextClock(m []string, now time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(m[4])
	if err != nil {
		return now, errors.New("there is no zone of that name")
	}
	hour, _ := strconv.Atoi(m[1]) // clock has checked them
	minute, _ := strconv.Atoi(m[2])
	second, _ := strconv.Atoi(m[3])
	for day := 0; ; day++ {
		y, month, d := now.In(zone).Date()
		if t := localTime(time.Date(y, month, d+day, hour, minute, second, 0, time.UTC), zone); t.After(now) {
			return t, nil
		}
	}
}

// localTime returns the first time at which clocks in the zone show the time that wall has in UTC. If they skip it, that is the time of the skip.
func localTime(wall time.Time, zone *time.Location) time.Time {
	const day = 24 * time.Hour // clocks are changed at most once in two
	var skip time.Time
	for _, near := range []time.Duration{-day, day} { // first as clocks were before the change
		_, offset := wall.Add(near).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, is := t.Zone(); is == offset {
			return t
		}
		if near < 0 {
			skip, _ = t.ZoneBounds()
		}
	}
	return skip
}
