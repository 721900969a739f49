package process_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/process"
)

func TestToolbox_HasTools(t *testing.T) {
	t.Parallel()
	for name, command := range languages(t) {
		t.Run(name, func(t *testing.T) {
			b, err := process.NewToolbox(process.Config{Info: plugins.Info{Name: "sums", Approver: plugins.Approver{By: plugins.ByAdmin}}, Command: command})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close(t.Context())
			if n := len(b.Tools()); n != 0 {
				t.Errorf("%d tools before it was started", n)
			}
			if err := b.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-b.Settled()
			list := b.Tools()
			if len(list) != 2 || list[0].Info().Name != "sums.add" || !list[0].Info().Idempotent || list[0].Info().Parameters == nil ||
				list[1].Info().Name != "sums.refuse" || list[1].Info().Parameters != nil {
				t.Fatalf("tools: %+v", list)
			}
			by := plugins.Approver{By: plugins.ByAdmin, Message: "args.why", Expires: 24 * time.Hour, NoEdit: true} // the program's and the setting's
			if info := list[1].Info(); list[0].Info().Approval || !info.Approval || info.Approver != by {
				t.Errorf("approvals of add and refuse: %v, and %v by %+v", list[0].Info().Approval, info.Approval, info.Approver)
			}
			out, err := list[0].Call(t.Context(), &plugins.Call{ID: "c", Args: json.RawMessage(`{"numbers":[1,2,3]}`)})
			if err != nil || out.ResultSummary != "6" {
				t.Errorf("add: %+v, %v", out, err)
			}
			_, err = list[1].Call(t.Context(), &plugins.Call{ID: "c"})
			var shown *plugins.Error
			if !errors.As(err, &shown) || shown.Code != "not_found" || shown.Message != "there is no such thing" {
				t.Errorf("refuse: %v", err)
			}
		})
	}
}

func TestToolbox_WithoutToolsFails(t *testing.T) {
	t.Parallel()
	b, err := process.NewToolbox(process.Config{Info: plugins.Info{Name: "sums"}, Command: []string{"/bin/sh", "-c", hello + "cat >/dev/null"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-b.Settled()
	if h := b.Health(); h == nil || h.OK {
		t.Error("a program without tools is a toolbox")
	}
}
