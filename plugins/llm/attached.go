package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Limits on the attachments of a request in bytes, each and in total. The latest attachments are included.
const (
	maxAttachment  = 16 << 20
	maxAttachments = 24 << 20
)

// attachments reads the attachments of turns, the latest first, up to the limit. The model gets only a note about others.
func (v *converter) attachments(ctx context.Context, turns [][]agui.Message) error {
	for _, turn := range slices.Backward(turns) {
		for i := range slices.Backward(turn) {
			if err := v.attach(ctx, &turn[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// attach reads a message's attachments.
func (v *converter) attach(ctx context.Context, m *agui.Message) error {
	if m.Role != agui.RoleUser {
		return nil
	}
	list := plugins.Attachments(m)
	if _, read := v.attached[m.ID]; len(list) == 0 || read {
		return nil
	}
	var all files
	for _, a := range list {
		if err := v.readAttachment(ctx, a, &all); err != nil {
			return err
		}
	}
	if v.attached == nil {
		v.attached = make(map[string]files)
	}
	v.attached[m.ID] = all
	return nil
}

// files are the attachments of a message in the form for the model, and as the run's prompts show them.
type files struct {
	parts []llms.ContentPart
	sent  []sentPart
}

// describe adds a text about an attachment.
func (f *files) describe(a plugins.Attachment, why string) {
	name := strings.TrimSpace(a.Filename + " " + a.MimeType)
	text := "[attached: " + clip(name, 300) + why + "]"
	f.parts, f.sent = append(f.parts, llms.TextContent{Text: text}), append(f.sent, sentPart{Type: "text", Text: text})
}

// add adds an attachment with its name and its content.
func (f *files) add(a plugins.Attachment, content llms.ContentPart) {
	f.describe(a, ":")
	f.parts, f.sent = append(f.parts, content), append(f.sent, sentFile(a))
}

// readAttachment adds an attachment to those of a message.
func (v *converter) readAttachment(ctx context.Context, named plugins.Attachment, to *files) error {
	if named.Path == "" {
		to.describe(named, "")
		return nil
	}
	a, data, err := v.run.Attachment(ctx, named, min(maxAttachment, maxAttachments-v.shown))
	switch {
	case errors.Is(err, plugins.ErrNoAttachment):
		to.describe(named, ", which is not there any more")
		return nil
	case errors.Is(err, plugins.ErrAttachmentTooLarge):
		to.describe(a, fmt.Sprintf(", %d bytes, too large to be shown", a.Size))
		return nil
	case err != nil:
		return fmt.Errorf("attachment: %w", err)
	}
	kind, _, _ := strings.Cut(a.MimeType, ";")
	switch kind = strings.TrimSpace(kind); {
	case agui.Textual(kind):
		if len(data) > plugins.MaxTextAttachment {
			to.describe(a, fmt.Sprintf(", %d bytes, too large to be shown", a.Size))
			return nil
		}
		v.shown += int64(len(data))
		to.add(a, llms.TextContent{Text: strings.ToValidUTF8(string(data), "\uFFFD")})
	case v.a.takes(kind, false):
		v.shown += int64(len(data))
		to.add(a, llms.BinaryContent{MIMEType: kind, Data: data})
	default:
		to.describe(a, ", which cannot be shown")
	}
	return nil
}

// takes reports whether a model gets parts of a media type, or images by their URLs. A Taker that does not says so itself; other
// models get images alone.
func (a *Agent) takes(kind string, url bool) (taken bool) {
	for _, m := range a.models {
		taker, ok := m.(Taker)
		if !ok && !url && !strings.HasPrefix(kind, "image/") {
			return false
		}
		taken = taken || !ok || taker.Takes(kind, url)
	}
	return taken
}
