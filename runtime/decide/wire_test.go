package decide_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// again is a command as another instance reads it.
func again(t *testing.T, c decide.Command) decide.Command {
	t.Helper()
	text, err := decide.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	read, err := decide.Decode(text)
	if err != nil {
		t.Fatalf("%v of %s", err, text)
	}
	return read
}

// TestCommandsKeepAllFields sends commands, and rows of each kind in them, in which every field is set.
func TestCommandsKeepAllFields(t *testing.T) {
	for _, c := range []decide.Command{
		new(decide.Start), new(decide.Claim), new(decide.Resume), new(decide.Expire), new(decide.Append), new(decide.Cancel),
		new(decide.Close), new(decide.Finish), new(decide.TakeOver), new(decide.Release), new(decide.Look), new(decide.Patch),
		new(decide.Delete),
	} {
		if a, ok := c.(*decide.Append); ok {
			a.Message.Role = agui.RoleUser // a message without one is none
		}
		if got := again(t, c); !reflect.DeepEqual(got, c) {
			t.Errorf("an empty %T (-want +got):\n%s", c, cmp.Diff(c, got))
		}
		fill(reflect.ValueOf(c).Elem())
		if got := again(t, c); !reflect.DeepEqual(got, c) {
			t.Errorf("%T (-want +got):\n%s", c, cmp.Diff(c, got))
		}
	}
}

// allRows are a row of each kind.
func allRows() model.Rows {
	rows := model.Rows{
		&model.Thread{}, &model.ThreadHead{}, &model.ThreadState{}, &model.ThreadPatch{}, &model.Run{}, &model.RunHead{},
		&model.RunResult{}, &model.RunSettled{}, &model.RunName{}, &model.Span{}, &model.SpanEnd{}, &model.Step{}, &model.Node{},
		&model.Message{}, &model.Hide{}, &model.Memo{}, &model.Interrupt{}, &model.Answer{}, &model.Withdraw{},
		&model.IdempotencyKey{}, &model.Delete{},
	}
	for _, row := range rows {
		fill(reflect.ValueOf(row).Elem())
	}
	return rows
}

// fill sets all there is to set.
func fill(v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 2, 3, 4, 5, 6, 7_000_000, time.UTC)))
		return
	case *json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":"<&>"}`)))
		return
	case *model.Rows:
		v.Set(reflect.ValueOf(allRows()))
		return
	case *agui.Message:
		v.Set(reflect.ValueOf(agui.Message{
			ID: "m", Role: agui.RoleAssistant, Content: "<c>", Name: "n", ToolCalls: []agui.ToolCall{{ID: "c", Name: "t", Arguments: "{}"}},
			EncryptedValue: "e", SubagentRunID: "s", Metadata: json.RawMessage(`{"a":1}`), Extra: json.RawMessage(`{"b":[1]}`),
		}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("s <&>")
	case reflect.Int, reflect.Int64:
		v.SetInt(1 << 60)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.Tag.Get("json") != "-" {
				fill(field)
			}
		}
	default:
		panic(v.Type())
	}
}

func TestUnknownCommandsAreRefused(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `[]`, `{"kind":"dance","command":{}}`, `{"kind":"claim","command":[]}`,
		`{"kind":"claim","command":{"Rows":[{"kind":"Dance","row":{}}]}}`, `{"kind":"claim","command":{"Rows":[{"kind":"Step","row":[]}]}}`,
	} {
		if c, err := decide.Decode([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, c)
		}
	}
}
