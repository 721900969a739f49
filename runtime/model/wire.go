package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// kinds are the rows by the names they have in JSON.
var kinds = func() map[string]reflect.Type {
	m := make(map[string]reflect.Type)
	for _, row := range []Row{
		&Thread{}, &ThreadHead{}, &ThreadState{}, &ThreadPatch{}, &Run{}, &RunHead{}, &RunResult{}, &RunSettled{}, &RunName{}, &Audit{},
		&Span{}, &SpanEnd{}, &Step{}, &Node{}, &Message{}, &Hide{}, &Memo{}, &Interrupt{}, &Answer{}, &Withdraw{},
		&IdempotencyKey{}, &Delete{},
	} {
		m[kindOf(row)] = reflect.TypeOf(row).Elem()
	}
	return m
}()

func kindOf(row Row) string { return reflect.TypeOf(row).Elem().Name() }

// wireRow is a row in JSON.
type wireRow struct {
	Kind string          `json:"kind"`
	Row  json.RawMessage `json:"row"`
}

// MarshalJSON writes each row with its kind.
func (r Rows) MarshalJSON() ([]byte, error) {
	list := make([]wireRow, len(r))
	for i, row := range r {
		text, err := JSON(row)
		if err != nil {
			return nil, err
		}
		list[i] = wireRow{kindOf(row), text}
	}
	return JSON(list)
}

// UnmarshalJSON reads them. A kind that is unknown is an error.
func (r *Rows) UnmarshalJSON(text []byte) error {
	var list []wireRow
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*r = nil
	for _, w := range list {
		kind, ok := kinds[w.Kind]
		if !ok {
			return fmt.Errorf("rows of the kind %q are unknown", w.Kind)
		}
		row := reflect.New(kind)
		if err := json.Unmarshal(w.Row, row.Interface()); err != nil {
			return fmt.Errorf("%s: %w", w.Kind, err)
		}
		*r = append(*r, row.Interface().(Row))
	}
	return nil
}

// wireMessage is a message's row in JSON: it would otherwise be that of the message in it alone.
type wireMessage struct {
	Key, ThreadKey, RunKey, Seq, EventID int64
	State                                MessageState
	ContextItemIDs                       []string
	Day, CreatedAt                       time.Time
	Message                              agui.Message
}

// MarshalJSON writes the whole row.
func (m Message) MarshalJSON() ([]byte, error) {
	return JSON(wireMessage{
		m.Key, m.ThreadKey, m.RunKey, m.Seq, m.EventID, m.State, m.ContextItemIDs, m.Day, m.CreatedAt, m.Message,
	})
}

// UnmarshalJSON reads it.
func (m *Message) UnmarshalJSON(text []byte) error {
	var w wireMessage
	err := json.Unmarshal(text, &w)
	*m = Message{
		Key: w.Key, ThreadKey: w.ThreadKey, RunKey: w.RunKey, Seq: w.Seq, EventID: w.EventID, State: w.State,
		ContextItemIDs: w.ContextItemIDs, Day: w.Day, CreatedAt: w.CreatedAt, Message: w.Message,
	}
	return err
}

// JSON is v as JSON, in which what is JSON already keeps its characters as they are.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
