package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// reader is a model that accepts PDF files.
type reader struct{ *model }

func (reader) Takes(kind string, _ bool) bool { return kind == "application/pdf" }

func TestAttachments_AreIncluded(t *testing.T) {
	t.Parallel()
	message := func(id string, paths ...string) agui.Message {
		var list []map[string]any
		for _, p := range paths {
			list = append(list, map[string]any{"path": p, "filename": "said " + p, "mimeType": "said/type"})
		}
		metadata, _ := json.Marshal(map[string]any{"attachments": list})
		return agui.Message{ID: id, Role: agui.RoleUser, Content: "look", Metadata: metadata}
	}
	files := map[string]plugintest.Attachment{
		"png":   {Filename: "a.png", MimeType: "image/png", Data: []byte("PNG")},
		"text":  {Filename: "b.md", MimeType: "text/markdown", Data: []byte("# Text \xff")},
		"pdf":   {Filename: "c.pdf", MimeType: "application/pdf", Data: []byte("PDF")},
		"zip":   {Filename: "d.zip", MimeType: "application/zip", Data: []byte("ZIP")},
		"long":  {Filename: "e.txt", MimeType: "text/plain", Data: []byte(strings.Repeat("x", 1<<20+1))},
		"large": {Filename: "f.png", MimeType: "image/png", Data: make([]byte, 16<<20+1)},
		"big":   {Filename: "g.png", MimeType: "image/png", Data: make([]byte, 16<<20)},
	}
	for _, c := range []struct {
		name     string
		messages []agui.Message
		want     []string // in the request
		not      []string
	}{
		{"image", []agui.Message{message("1", "png")}, []string{`[attached: a.png image/png:] | image/png "PNG"`}, []string{"said"}},
		{"text", []agui.Message{message("1", "text")}, []string{"[attached: b.md text/markdown:] | # Text \uFFFD"}, nil},
		{"others", []agui.Message{message("1", "zip", "gone", "long", "large")}, []string{
			"[attached: d.zip application/zip, which cannot be shown]", "[attached: said gone said/type, which is not there any more]",
			"[attached: e.txt text/plain, 1048577 bytes, too large to be shown]", "[attached: f.png image/png, 16777217 bytes, too large to be shown]",
		}, nil},
		{"the latest", []agui.Message{message("1", "big", "png"), {ID: "a", Role: agui.RoleAssistant, Content: "ok"}, message("2", "big")}, []string{
			"[attached: g.png image/png, 16777216 bytes, too large to be shown]", `image/png "PNG"`, "[attached: g.png image/png:]",
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &model{replies: []reply{says("done")}}
			res := plugintest.Run(t, newAgent(t, llm.Config{Model: m}), plugintest.Config{
				Messages: c.messages, Attachments: files,
			})
			if res.Err != nil {
				t.Fatal(res.Err)
			}
			got := m.request(1)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%.2000q\nlacks %q", got, want)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("%.2000q\nhas %q", got, not)
				}
			}
		})
	}
	t.Run("pdf", func(t *testing.T) {
		messages := []agui.Message{message("1", "pdf")}
		for _, c := range []struct {
			cfg  func(m *model) llm.Config
			want string
		}{
			{func(m *model) llm.Config { return llm.Config{Model: m} }, "[attached: c.pdf application/pdf, which cannot be shown]"},
			{func(m *model) llm.Config { return llm.Config{Model: reader{m}} }, `[attached: c.pdf application/pdf:] | application/pdf "PDF"`},
			{func(m *model) llm.Config { return llm.Config{Model: reader{m}, Fallbacks: []llms.Model{&model{}}} }, "[attached: c.pdf application/pdf, which cannot be shown]"},
		} {
			m := &model{replies: []reply{says("done")}}
			res := plugintest.Run(t, newAgent(t, c.cfg(m)), plugintest.Config{Messages: messages, Attachments: files})
			if got := m.request(1); res.Err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%v: %q lacks %q", res.Err, got, c.want)
			}
		}
	})
}
