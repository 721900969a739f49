package storage

import (
	_ "embed"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// sealedOnce is a run as the first version of sealed runs has stored it. It must not be written anew: databases have such.
//
//go:embed testdata/sealed_run
var sealedOnce []byte

// What a run was sealed with is read whatever the fields are called now.
func TestRunSealedByAnOldVersionIsRead(t *testing.T) {
	at := time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	fault := &agui.OutputError{Code: "c", Message: "m"}
	want := detail{
		Run: model.Run{
			Input: []byte(`{"a": "<>&"}`), Definition: []byte(`{"nodes": []}`), Metadata: []byte(`{ }`), InputQuery: "what?",
			OutputSummary: new("that"), ParentRun: "parent", ContextItemIDs: []string{"c"},
		},
		Steps: []model.Step{{
			RunKey: 7, Number: 1, ID: "s", Generation: 2, NodeID: "n", Name: "name", Execution: 3, Status: model.Failed, Input: "what?",
			Output: new("that"), Error: fault, StartedAt: at, CompletedAt: &at,
		}},
		Nodes: []model.Node{{
			RunKey: 7, NodeID: "n", Status: model.Failed, Progress: 0.5, Messages: []string{"a"},
			Output: json.RawMessage(`{"answer": "that"}`), Error: fault, StartedAt: &at, CompletedAt: &at,
		}},
	}
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	s, err := db.unsealed(sealedOnce)
	if err != nil {
		t.Fatal(err)
	}
	got := detail{Steps: s.steps(7), Nodes: s.nodes(7)}
	s.fill(&got.Run)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
