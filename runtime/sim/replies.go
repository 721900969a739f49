package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// checkReaders compares the readers' events with each other and with the logs.
func (c *checker) checkReaders(convs map[string]*view) {
	type place struct {
		conv string
		id   int64
	}
	first := make(map[place]shown)
	for conv, v := range convs {
		for i := range v.log {
			if e := &v.log[i]; e.id != 0 {
				first[place{conv, e.id}] = shown{e.id, e.as, e.json}
			}
		}
	}
	for _, rd := range c.readers.soFar() {
		next := rd.after + 1
		for _, s := range rd.shown {
			if s.id == 0 {
				continue
			}
			reset := strings.Contains(s.json, `"log-reset"`)
			if reset && rd.after >= 0 && !strings.Contains(s.json, fmt.Sprintf(`"value":{"from":%d,"to":%d}`, next, s.id)) {
				c.find(RuleReader, "%s was shown that events are removed up to %d, when %d was next: %s", rd.what, s.id, next, s.json)
			}
			if rd.after >= 0 && s.id != next && !reset {
				c.find(RuleReader, "%s, who began behind %d, was shown %d when %d was next", rd.what, rd.after, s.id, next)
			}
			next = s.id + 1
			at := place{rd.conv, s.id}
			one, seen := first[at]
			v := convs[rd.conv]
			switch {
			case reset || strings.Contains(one.json, `"log-reset"`):
			case !seen && v != nil && !v.cut:
				c.find(RuleReader, "%s was shown event %d, which is not in the log: %s", rd.what, s.id, s.json)
			case !seen:
				first[at] = s
			case one != s:
				c.find(RuleReader, "%s was shown event %d of %s as %s, and it is %s of %s", rd.what, s.id, s.run, s.json, one.json, one.run)
			}
		}
	}
}

// checkFollowers checks that readers which follow a thread have got all its events soon.
func (c *checker) checkFollowers(convs map[string]*view) {
	behind := func() (all []reading) {
		for _, rd := range c.readers.soFar() {
			if v := convs[rd.conv]; rd.follows && v != nil && len(v.log) > 0 && rd.got < v.log[len(v.log)-1].id {
				all = append(all, rd)
			}
		}
		return all
	}
	if len(behind()) == 0 {
		return
	}
	if c.sleep(soon); c.h.troubled(Silent) { // the answer that a reader waits for
		c.sleep(20 * time.Second)
	}
	for _, rd := range behind() {
		c.find(RuleReader, "%s has got all events up to %d, and no later ones", rd.what, rd.got)
	}
}

// checkClients checks that the clients of runs that were cancelled or deleted have seen that soon.
func (c *checker) checkClients() {
	if c.h.troubled(Stuck) { // a server that cannot write may show it late
		return
	}
	for _, rd := range c.readers.soFar() {
		is := rd.client
		if is.run == "" || !is.of.shows() || c.h.reusesNames() {
			continue
		}
		if is.ended.IsZero() {
			is.ended = time.Now()
		}
		for _, r := range c.replies {
			if r.fate != done || r.run != is.run || r.step.Do != doCancel && r.step.Do != doDelete {
				continue
			}
			if late := min(is.ended.Sub(r.at), is.ended.Sub(is.since)); late > soon {
				c.find(RuleWatch, "%s has seen its end %v after %s %d was answered", rd.what, late, r.step.Do, r.step.N)
			}
		}
	}
}

// checkReplies compares the callers' answers with the final state.
func (c *checker) checkReplies(convs map[string]*view) {
	k := &claims{checker: c, convs: convs, texts: make(map[string][]string), spoilt: make(map[string]bool), outrun: make(map[string]bool)}
	for _, v := range convs {
		k.index(v)
		k.causes(v)
		k.reached(v)
	}
	for _, r := range c.replies {
		c.checkRefused(r)
		switch r.step.Do {
		case doStart:
			k.started(r)
		case doAppend:
			k.appended(r)
		case doCancel:
			k.cancelled(r)
		case doDelete:
			k.deleted(r)
		case doClear, doWipe:
			k.cleared(r)
		case doReply:
			k.replied(r)
		}
	}
	k.keys()
	k.titles()
	k.events()
}

// events checks that no wait for an event has ended without one although there was one that nothing has received, and that events of one key
// are received once. Runs that have ended before have dropped theirs.
func (c *claims) events() {
	first := make(map[string]bool) // runs that were never restarted
	for _, v := range c.convs {
		for i := range v.runs {
			first[v.runs[i].ID] = v.runs[i].Generation == 1 && !v.cut
		}
	}
	keys := make(map[string]string)
	for _, r := range c.replies {
		if r.step.Do != doEvent {
			continue
		}
		payload := string(mustJSON(r.msg))
		place := c.ledger.events[payload]
		if key := fmt.Sprint(r.step.Key, r.caller); r.step.Key != 0 && place != "" {
			if keys[key] != "" {
				c.find(RuleEvent, "the events %s and %s of one key were received", keys[key], payload)
			}
			keys[key] = payload
		}
		for _, w := range c.ledger.without {
			if place == "" && r.fate == done && r.step.Key == 0 && w.run == r.run && first[r.run] && r.at.Before(w.began) && !c.h.reusesNames() {
				c.find(RuleEvent, "%s: a wait ended without the event %s, which was taken %v before", w.place, payload, w.began.Sub(r.at))
			}
		}
	}
}

// titles checks that a thread's title was set by a caller.
func (c *claims) titles() {
	for _, v := range c.convs {
		given, kept := []string{""}, false
		for _, r := range c.replies {
			if r.step.Do == doTitle && r.thread == v.n && r.fate != refused {
				given = append(given, title(&r.step))
				kept = kept || r.fate == done
			}
		}
		if !slices.Contains(given, v.th.Title) || kept && v.th.Title == "" && !c.anyCleared() {
			c.find(RuleAck, "thread %s has the title %q, and was given %q", v.name, v.th.Title, given)
		}
	}
}

// claims checks the promises to callers.
type claims struct {
	*checker
	convs  map[string]*view
	texts  map[string][]string // ids of the messages in logs and queues, by the name in their text
	spoilt map[string]bool     // runs that failed because the database refused their data
	outrun map[string]bool     // runs to rewind to a message that was hidden before their turn: they hide nothing, and their messages are dropped
}

// index records a thread's user messages in its log and queues.
func (c *claims) index(v *view) {
	note := func(id, text string) {
		name, _, _ := strings.Cut(text, ":")
		if !slices.Contains(c.texts[name], id) {
			c.texts[name] = append(c.texts[name], id)
		}
	}
	begun := make(map[string]string)
	for i := range v.log {
		switch ev := v.log[i].ev.(type) {
		case agui.RunStarted:
			if ev.Input == nil {
				continue
			}
			for _, m := range ev.Input.Messages {
				note(m.ID, m.Text())
			}
		case agui.RunError:
			if ev.Code == "unknown_message" {
				c.outrun[v.log[i].run] = true
			}
			if !ours(ev.Code) {
				continue
			}
			c.spoilt[v.log[i].run] = true
			if !c.badData.Load() {
				c.find(RuleOutage, "run %s has failed with %s: %s", short(v.log[i].run), ev.Code, ev.Message)
			}
		case agui.TextMessageStart:
			if ev.Role == agui.RoleUser {
				begun[ev.MessageID] = ""
			}
		case agui.TextMessageContent:
			if text, ok := begun[ev.MessageID]; ok {
				begun[ev.MessageID] = text + ev.Delta
			}
		}
	}
	for id, text := range begun {
		note(id, text)
	}
	for _, msgs := range v.messages {
		for i := range msgs {
			if msgs[i].State == runtime.MessageQueued {
				note(msgs[i].ID, msgs[i].Text())
			}
		}
	}
}

// removed reports whether a request may have deleted the run or its thread.
func (c *claims) removed(r *reply) bool {
	return slices.ContainsFunc(c.replies, func(d *reply) bool {
		return d.fate != refused && (d.clears(r.thread) || d.step.Do == doDelete && d.run == r.run)
	}) || c.mayBeRetired(r.run)
}

// clears reports whether a request deletes a thread, alone or with the rest of its user's.
func (r *reply) clears(thread int) bool {
	return r.step.Do == doClear && r.thread == thread || r.step.Do == doWipe && (r.thread-1)/threadsEach == (thread-1)/threadsEach
}

// anyCleared reports whether a request may have deleted a thread.
func (c *claims) anyCleared() bool {
	return slices.ContainsFunc(c.replies, func(d *reply) bool { return d.fate != refused && (d.step.Do == doClear || d.step.Do == doWipe) })
}

func (c *claims) started(r *reply) {
	name := fmt.Sprint("m", r.step.N)
	if r.fate == refused {
		if !c.anyDone(r.step.N) && len(c.texts[name]) > 0 {
			c.find(RuleRefused, "start %d was refused, and its message is there", r.step.N)
		}
		return
	}
	if len(c.texts[name]) > 1 {
		c.find(RuleKey, "the message of start %d is there as %v", r.step.N, c.texts[name])
	}
	if c.removed(r) || r.run == "" || c.shared(r) {
		return
	}
	run, err := c.p.rt.Runs.Get(c.ctx, r.caller, r.name)
	if err != nil {
		if r.fate == done {
			c.find(RuleAck, "start %d was answered, and there is no run %s: %v", r.step.N, short(r.run), err)
		}
		return
	}
	if c.spoilt[run.ID] || c.outrun[run.ID] {
		return
	}
	ran := run.Status == runtime.Completed || run.Status == runtime.Failed || run.Status == runtime.Waiting
	if ran && len(c.texts[name]) == 0 && !c.anyCleared() && !c.mayBeStripped(&run) {
		c.find(RuleWhole, "run %s is %s, and its message is not in the log", short(r.run), run.Status)
	}
}

// ours reports whether a run failed without an error of its worker.
func ours(code string) bool {
	return slices.Contains([]string{"internal", "storage_error", "unreadable"}, code)
}

// shared reports whether another start may have created the run of that name.
func (c *claims) shared(r *reply) bool {
	return slices.ContainsFunc(c.replies, func(s *reply) bool {
		return s.step.Do == doStart && s.step.N != r.step.N && s.run == r.run && s.fate != refused
	})
}

// anyDone reports whether a caller of a step was not refused.
func (c *claims) anyDone(n int) bool {
	return slices.ContainsFunc(c.replies, func(r *reply) bool { return r.step.N == n && r.fate != refused })
}

func (c *claims) appended(r *reply) {
	name := fmt.Sprint("m", r.step.N)
	switch {
	case r.fate == refused:
		if !c.anyDone(r.step.N) && len(c.texts[name]) > 0 {
			c.find(RuleRefused, "append %d was refused, and its message is there", r.step.N)
		}
		return
	case len(c.texts[name]) > 1:
		c.find(RuleKey, "the message of append %d is there as %v", r.step.N, c.texts[name])
	}
	if r.fate != done || c.removed(r) || c.startRemoved(r) {
		return
	}
	run, err := c.p.rt.Runs.Get(c.ctx, r.caller, r.name)
	if err != nil {
		c.find(RuleAck, "append %d was answered, and there is no run %s: %v", r.step.N, short(r.run), err)
		return
	}
	if c.spoilt[run.ID] || c.outrun[run.ID] {
		return
	}
	if run.Status != runtime.Cancelled && !slices.Contains(c.texts[name], r.msg) && !c.mayBeStripped(&run) {
		c.find(RuleAck, "append %d was answered with message %s, run %s is %s, and the message is neither in the log nor queued",
			r.step.N, short(r.msg), short(r.run), run.Status)
	}
}

// startRemoved reports whether the thread of a reply's run may have been deleted.
func (c *claims) startRemoved(r *reply) bool {
	return slices.ContainsFunc(c.replies, func(s *reply) bool {
		return s.step.Do == doStart && s.run == r.run && c.removed(s)
	})
}

// causes checks that a request wanted each cancelled run cancelled. A request that was refused, or that left nothing
// else, cannot have cancelled it.
func (c *claims) causes(v *view) {
	for i := range v.runs {
		run := &v.runs[i]
		if run.Status != runtime.Cancelled || slices.ContainsFunc(c.replies, func(r *reply) bool { return c.cancels(r, v, run) }) {
			continue
		}
		c.find(RuleWhole, "run %s is CANCELLED, and no request that has happened asks for it", short(run.ID))
	}
}

// reached checks that the workers of COMPLETED runs received their messages.
func (c *claims) reached(v *view) {
	for i := range v.runs {
		run := &v.runs[i]
		if run.Status != runtime.Completed || run.WorkflowID != alone {
			continue
		}
		for _, m := range v.messages[run.ID] {
			if m.Role == agui.RoleUser && m.State == runtime.MessageConsumed && !c.ledger.reached[run.ID+" "+m.ID] {
				c.find(RuleReach, "run %s is COMPLETED, and its worker has never seen the message %s", short(run.ID), short(m.ID))
			}
		}
	}
}

// cancels reports whether a request may have cancelled a run of the thread.
func (c *claims) cancels(r *reply, v *view, run *runtime.Run) bool {
	if r.fate != refused && r.clears(v.n) {
		return true
	}
	if r.thread != v.n && r.run != run.ID || r.fate == refused {
		return false
	}
	switch r.step.Do {
	case doCancel:
		return r.run == run.ID
	case doStart, doReply:
		makesRoom := r.step.Multitask == string(runtime.InterruptRuns) || r.step.Multitask == string(runtime.RollbackRuns)
		if r.run == run.ID && r.step.Do == doStart || !makesRoom && c.h.Uses("front") == 0 { // it waits for its client's tools
			return false
		}
		if r.step.Do == doReply && r.fate == unknown { // it may have started a run of a name that no other request has
			told := func(o runtime.Run) bool {
				return slices.ContainsFunc(c.replies, func(k *reply) bool { return k != r && k.run == o.ID })
			}
			return slices.ContainsFunc(v.runs, func(o runtime.Run) bool { return !told(o) })
		}
		return r.fate == done || r.run == "" || c.removed(r) || slices.ContainsFunc(v.runs, func(o runtime.Run) bool { return o.ID == r.run })
	}
	return false
}

func (c *claims) cancelled(r *reply) {
	promised := r.err != nil && strings.Contains(r.err.Error(), "it ends as soon as that server, or its successor, answers")
	if r.fate != done && !promised || c.startRemoved(r) || c.removed(r) {
		return
	}
	run, err := c.p.rt.Runs.Get(c.ctx, r.caller, r.name)
	switch {
	case r.fate == done && (err != nil || run.Status != runtime.Cancelled):
		c.find(RuleAck, "cancel %d was answered, and run %s is %s %v", r.step.N, short(r.run), run.Status, err)
	case promised && err == nil && !run.Status.Final():
		c.find(RuleAck, "cancel %d was answered that run %s ends, and it is %s", r.step.N, short(r.run), run.Status)
	}
}

// replied checks that an answer has given its run another name.
func (c *claims) replied(r *reply) {
	if r.fate != done || r.as == "" || c.startRemoved(r) || c.removed(r) {
		return
	}
	if run, err := c.p.rt.Runs.Get(c.ctx, r.caller, r.as); err != nil || run.ID != r.run {
		c.find(RuleAck, "reply %d was answered, and its run %s is as %s %s %v", r.step.N, short(r.run), r.as, short(run.ID), err)
	}
}

func (c *claims) deleted(r *reply) {
	starts, later := 0, false
	for _, s := range c.replies {
		if s.step.Do == doStart && s.run == r.run {
			starts++
			later = later || s.at.After(r.from) || s.fate == unknown // whose transaction can end later than its request
		}
	}
	if r.fate != done || starts > 1 && later { // the run of one start is gone, and another one's is there
		return
	}
	if run, err := c.p.rt.Runs.Get(c.ctx, r.caller, r.name); err == nil {
		c.find(RuleAck, "delete %d was answered, and run %s is there, %s", r.step.N, short(r.run), run.Status)
	}
}

func (c *claims) cleared(r *reply) {
	if r.fate != done {
		return
	}
	for _, s := range c.replies {
		if s.step.Do == doStart && s.fate == done && r.clears(s.thread) && s.at.Before(r.from) && c.convs[s.conv] != nil {
			c.find(RuleAck, "clear %d was answered, and the thread of run %s is there", r.step.N, short(s.run))
		}
	}
}

// keys checks that requests with one key acted as one request.
func (c *claims) keys() {
	ids := make(map[string]string)
	for _, r := range c.replies {
		if r.step.Key == 0 || r.step.Do == doEvent || r.fate != done || c.removed(r) || c.startRemoved(r) {
			continue
		}
		id, key := r.run+r.msg, c.key(r.caller, &r.step).Scope
		if old := ids[key]; old != "" && old != id {
			c.find(RuleKey, "%s %d made %s and %s", r.step.Do, r.step.N, old, id)
		}
		ids[key] = id
	}
}

// checkTools compares tool calls with the logs.
func (c *checker) checkTools(convs map[string]*view) {
	args := make(map[string]string)
	results := make(map[string]*agui.ToolCallResult)
	runs := make(map[string]bool)
	for _, v := range convs {
		for i := range v.runs {
			runs[v.runs[i].ID] = !v.cut
		}
		for i := range v.log {
			switch ev := v.log[i].ev.(type) {
			case agui.ToolCallStart:
				args[ev.ToolCallID] += ""
			case agui.ToolCallArgs:
				args[ev.ToolCallID] += ev.Delta
			case agui.ToolCallResult:
				results[ev.ToolCallID] = &ev
			}
		}
	}
	for _, e := range c.ledger.executions {
		raw, begun := args[e.Call]
		if !begun {
			if runs[e.Run] && !c.anyDeletes() {
				c.find(RuleCall, "%s: the call %s was made, and it is not in the log", e.Place, short(e.Call))
			}
			continue
		}
		var logged struct{ Place string }
		_ = json.Unmarshal([]byte(raw), &logged)
		if logged.Place != e.Place {
			c.find(RuleApproval, "the call %s was made at %s, and the log says %s", short(e.Call), e.Place, raw)
		}
		if r := results[e.Call]; r != nil && r.Output != nil && r.Output.Status == agui.StatusSuccess && plain(r.Content) != plain("did "+e.Place) {
			c.find(RuleRecord, "the call %s was made at %s, and its result is %q", short(e.Call), e.Place, r.Content)
		}
	}
}

func (c *callers) anyDeletes() bool {
	return c.h.Does(doRetire) || slices.ContainsFunc(c.replies, func(d *reply) bool {
		return d.step.Do == doClear || d.step.Do == doWipe || d.step.Do == doDelete
	})
}
