package storage

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// squeeze loses nothing of a message's JSON, and its result is JSON.
func FuzzSqueeze(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"id":"a"}`, `{"id":"\"","role":"user","content":""}`, `{"role":"user","content":"a","x":"a"}`,
		`{"role":"assistant","content":"hi","metadata":{"workerAgentOutput":{"status":"success","answer":"hi"},"a":"hi"}}`,
		`{"content":"hi","metadata":{"workerAgentOutput":"content","x":{"workerAgentOutput":{"status":"success","answer":"hi"}}}}`,
		`{"content":[{"content":"x","y":"x"}],"z":"x"}`, `{"a":"\"content\":\"","content":"b","c":"b"}`, `{"content":"a\\","b":"a\\"}`,
	} {
		f.Add(text)
	}
	read := func(t *testing.T, text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q is not JSON: %v", text, err)
		}
		return v
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		kept := squeeze(text)
		read(t, kept)
		if got := stretch(kept); !reflect.DeepEqual(read(t, got), read(t, text)) {
			t.Errorf("%q became %q", text, got)
		}
		if strings.HasPrefix(text, `{"id":"`) {
			read(t, withoutID([]byte(text)))
		}
	})
}

func TestAnswersAreStoredOnce(t *testing.T) {
	t.Parallel()
	text := `{"id":"m","role":"assistant","content":"hi \"you\"","metadata":{"workerAgentOutput":{"status":"success","answer":"hi \"you\""},"stage":"main"}}`
	want := `{"role":"assistant","content":"hi \"you\"","metadata":{"workerAgentOutput":"content","stage":"main"}}`
	if got := squeeze(withoutID([]byte(text))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
