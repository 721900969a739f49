package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// A model and a viewer get each content once: neither a structured content that says the same, nor the data of a picture as text.
func TestResult_ContentOnce(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("iVBORw0KGgo/+/+/", 8) + "iVBORw=="
	escaped := strings.ReplaceAll(data, "/", `\/`)
	image := `{"type":"image","data":"` + data + `","mimeType":"image/png"}`
	const label = "[image image/png, 100 bytes]"
	for name, c := range map[string]struct {
		content, structured string
		want                string // the summary
		hints               string // the structured content for viewers, empty for none
	}{
		"a text as a member":         {`[{"type":"text","text":"a\nb"}]`, `{"content":"a\nb"}`, "a\nb", ""},
		"a text with white space":    {`[{"type":"text","text":"a\nb\n"}]`, `{"content":"a\nb\n"}`, "a\nb\n", ""},
		"texts as a list":            {`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `{"result":["a","b"]}`, "a\nb", ""},
		"texts in one":               {`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `{"all":"a\nb"}`, "a\nb", ""},
		"lines as members":           {`[{"type":"text","text":"Title\n\nThe body\nof it"}]`, `{"title":"Title","parts":{"body":"The body\nof it"}}`, "Title\n\nThe body\nof it", ""},
		"content as it is":           {`[{"type":"text","text":"a"},` + image + `]`, `{"content":[{"type":"text","text":"a"},` + image + `]}`, "a\n" + label, ""},
		"a picture as it is":         {`[` + image + `]`, `{"content":[` + image + `]}`, label, ""},
		"a picture with annotations": {`[{"type":"image","data":"` + data + `","mimeType":"image/png","annotations":{"priority":0.50,"audience":[]}}]`, `{"content":[{"type":"image","data":"` + data + `","mimeType":"image/png","annotations":{"priority":0.50,"audience":[]}}]}`, label, ""},
		"an embedded picture": {
			`[{"type":"resource","resource":{"uri":"file:///a.png","mimeType":"image/png","blob":"` + data + `"}}]`,
			`{"content":[{"type":"resource","resource":{"uri":"file:///a.png","mimeType":"image/png","blob":"` + data + `"}}]}`, "[image image/png file:///a.png, 100 bytes]", "",
		},
		"only its data":         {`[` + image + `]`, `{"image":"` + data + `"}`, label, ""},
		"a picture with a size": {`[` + image + `]`, `{"image":"` + data + `","width":7}`, label + "\n" + `{"image":"` + label + `","width":7}`, `{"image":"` + label + `","width":7}`},
		"a picture as a URL":    {`[` + image + `]`, `{"url":"data:image/png;base64,` + data + `"}`, label + "\n" + `{"url":"data:image/png;base64,` + label + `"}`, `{"url":"data:image/png;base64,` + label + `"}`},
		"escaped":               {`[` + image + `]`, `{"n":1,"image":"` + escaped + `"}`, label + "\n" + `{"n":1,"image":"` + label + `"}`, `{"n":1,"image":"` + label + `"}`},
		"another alphabet": {
			`[` + image + `]`, `{"n":1,"image":"` + strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(data) + `"}`,
			label + "\n" + `{"n":1,"image":"` + label + `"}`, `{"n":1,"image":"` + label + `"}`,
		},
		"a picture in a text":         {`[{"type":"text","text":"see ` + data + ` there"},` + image + `]`, ``, "see " + label + " there\n" + label, ""},
		"a picture in a text of JSON": {`[{"type":"text","text":"{\"n\":1,\"image\":\"` + data + `\"}"},` + image + `]`, `{"n":1,"image":"` + data + `"}`, `{"n":1,"image":"` + label + "\"}\n" + label, `{"n":1,"image":"` + label + `"}`},
		"in lines":                    {`[` + image + `]`, `{"n":1,"image":"` + data[:76] + `\n` + data[76:] + `\n"}`, label + "\n" + `{"n":1,"image":"` + label + `\n"}`, `{"n":1,"image":"` + label + `\n"}`},
		"in lines of a text":          {`[{"type":"text","text":"screenshot_of_the_page\n` + data[:64] + `\r\n` + data[64:128] + `\r\n` + data[128:] + `\nthere"},` + image + `]`, ``, "screenshot_of_the_page\n" + label + "\nthere\n" + label, ""},
		"between lines of a text":     {`[{"type":"text","text":"screenshot_of_the_page\n` + data + `\nthere"},` + image + `]`, ``, "screenshot_of_the_page\n" + label + "\nthere\n" + label, ""},
		"JSON in a fence":             {"[{\"type\":\"text\",\"text\":\"```json\\n{\\\"n\\\": 1}\\n```\"}]", `{"n":1}`, "```json\n{\"n\": 1}\n```", `{"n":1}`},
		"another picture":             {`[` + image + `]`, `{"n":"` + strings.Repeat("QUJD", 9) + `"}`, label + "\n" + `{"n":"` + strings.Repeat("QUJD", 9) + `"}`, `{"n":"` + strings.Repeat("QUJD", 9) + `"}`},
		"JSON":                        {`[{"type":"text","text":"{\"n\": 1}"}]`, `{"n":1}`, `{"n": 1}`, `{"n":1}`},
		"elements as JSON":            {`[{"type":"text","text":"{\"n\": 1}"},{"type":"text","text":"2"}]`, `{"result":[{"n":1},2]}`, "{\"n\": 1}\n2", `{"result":[{"n":1},2]}`},
		"more than the text":          {`[{"type":"text","text":"a"}]`, `{"content":"a","n":1}`, "a\n" + `{"content":"a","n":1}`, `{"content":"a","n":1}`},
		"a part of a line":            {`[{"type":"text","text":"name: ann"}]`, `{"name":"ann"}`, "name: ann\n" + `{"name":"ann"}`, `{"name":"ann"}`},
		"nothing":                     {`[{"type":"text","text":"none"}]`, `{"items":[]}`, "none\n" + `{"items":[]}`, `{"items":[]}`},
		"a flag":                      {`[{"type":"text","text":"true"}]`, `{"text":"true","ok":true}`, "true\n" + `{"text":"true","ok":true}`, `{"text":"true","ok":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			result := `{"content":` + c.content
			if c.structured != "" {
				result += `,"structuredContent":` + c.structured
			}
			s := started(t, played(t, func(w http.ResponseWriter, r *http.Request) { reply(w, r, result+"}") }))
			out, err := call(t, s, "it.put", `{}`)
			if err != nil || out.ResultSummary != c.want {
				t.Errorf("summary %q, %v; want %q", out.ResultSummary, err, c.want)
			}
			var hints struct{ StructuredContent json.RawMessage }
			if err := json.Unmarshal(out.UIHints, &hints); out.UIHints != nil && err != nil || string(hints.StructuredContent) != c.hints {
				t.Errorf("hints %s, %v; want %s", out.UIHints, err, c.hints)
			}
			if parts := strings.ReplaceAll(string(out.Parts), escaped, data); strings.Contains(c.content, "image") && strings.Count(parts, data) != 1 {
				t.Errorf("parts %s", out.Parts)
			}
		})
	}
}

// A picture that a server sends twice, and with it every byte of a message, may have 5 MB; a larger one is refused with a sentence.
func TestResult_LargePicture(t *testing.T) {
	t.Parallel()
	for size, works := range map[int]bool{5_000_000: true, 6 << 20: false} {
		picture := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{}).Read(picture)
		image := `{"type":"image","data":"` + base64.StdEncoding.EncodeToString(picture) + `","mimeType":"image/png"}`
		s := started(t, played(t, func(w http.ResponseWriter, r *http.Request) {
			reply(w, r, `{"content":[`+image+`],"structuredContent":{"content":[`+image+`]}}`)
		}))
		out, err := call(t, s, "it.put", `{}`)
		if want := fmt.Sprintf("[image image/png, %d bytes]", size); works && (err != nil || out.ResultSummary != want || out.UIHints != nil || len(out.Parts) > 4*size/3+200) {
			t.Errorf("%d bytes: %.200q, %d bytes of parts, %v", size, out.ResultSummary, len(out.Parts), err)
		}
		if !works && (err == nil || !strings.Contains(err.Error(), "larger than 16 MiB")) {
			t.Errorf("%d bytes: %.200q, %v", size, out.ResultSummary, err)
		}
	}
}
