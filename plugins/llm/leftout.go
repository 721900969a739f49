package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// LeftOutEvent is the name of the CUSTOM event that reports the tools that the run's model does not get; its value is {tools}, a
// list of {name, why}.
const LeftOutEvent = "tools-left-out"

// maxLeftOut limits the tools that an agent remembers as left out.
const maxLeftOut = 1000

// leftOut is the tools that an agent's models do not get.
type leftOut struct {
	mu    sync.Mutex // guards the fields below
	tools map[string]string
	since time.Time
}

// add adds a tool, and reports whether it is new.
func (l *leftOut) add(name, why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tools[name] == why || len(l.tools) >= maxLeftOut {
		return false
	}
	if l.tools == nil {
		l.tools = make(map[string]string)
	}
	l.tools[name], l.since = why, time.Now()
	return true
}

// leaveOut reports the tools that the model does not get: to viewers once in a run, and to operators once.
func (t *turn) leaveOut(tools []LeftOut) error {
	if t.toldLeftOut {
		return nil
	}
	t.toldLeftOut = true
	tools = slices.Clone(tools)
	for i := range tools {
		if tools[i].Name = t.tools.name(tools[i].Name); t.run.Silent() {
			tools[i].Why = "the model does not accept it"
		}
		if t.a.left.add(tools[i].Name, tools[i].Why) {
			cmp.Or(t.a.cfg.Log, slog.Default()).Warn("the model does not get a tool", "agent", t.a.cfg.Name, "tool", tools[i].Name, "why", tools[i].Why)
		}
	}
	value, err := json.Marshal(map[string]any{"tools": tools})
	if err != nil {
		return err
	}
	return t.run.Emit(agui.Custom{Name: LeftOutEvent, Value: value})
}

var _ plugins.Reporter = (*Agent)(nil)

// Health implements plugins.Reporter: the tools that the models do not get, the rules learned from their providers, and models that
// are down. It is nil while there is none of it.
func (a *Agent) Health() *plugins.Health {
	h := plugins.Health{OK: true}
	var details []string
	for _, m := range a.models {
		if down := paceOf(m, &Request{}).Down(); down != nil {
			h.OK = false
			details = append(details, down.Error())
		}
	}
	a.left.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(a.left.tools)) {
		details = append(details, fmt.Sprintf("tool %s is left out: %s", name, a.left.tools[name]))
	}
	h.Since = a.left.since
	a.left.mu.Unlock()
	for _, m := range a.models {
		if l, ok := m.(Learner); ok && len(l.Learned()) > 0 {
			details = append(details, "learned: "+strings.Join(l.Learned(), ", "))
		}
	}
	if details == nil {
		return nil
	}
	h.Detail = clip(strings.Join(details, "; "), 2000)
	return &h
}
