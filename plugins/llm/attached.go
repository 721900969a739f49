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
	maxText        = 1 << 20 // of a text attachment
)

// attachments reads the attachments of turns, the latest first, up to the limit. The model gets only a note about others.
func (t *turn) attachments(ctx context.Context, turns [][]agui.Message) error {
	for _, turn := range slices.Backward(turns) {
		for i := range slices.Backward(turn) {
			if err := t.attach(ctx, &turn[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// attach reads a message's attachments.
func (t *turn) attach(ctx context.Context, m *agui.Message) error {
	if m.Role != agui.RoleUser {
		return nil
	}
	list := plugins.Attachments(m)
	if len(list) == 0 || t.attached[m.ID] != nil {
		return nil
	}
	parts := make([]llms.ContentPart, 0, len(list))
	for _, a := range list {
		part, err := t.readAttachment(ctx, a)
		if err != nil {
			return err
		}
		parts = append(parts, part...)
	}
	if t.attached == nil {
		t.attached = make(map[string][]llms.ContentPart)
	}
	t.attached[m.ID] = parts
	return nil
}

// readAttachment returns an attachment as parts of a message: its name and its content.
func (t *turn) readAttachment(ctx context.Context, named plugins.Attachment) ([]llms.ContentPart, error) {
	describe := func(a plugins.Attachment, why string) []llms.ContentPart {
		name := strings.TrimSpace(a.Filename + " " + a.MimeType)
		return []llms.ContentPart{llms.TextContent{Text: "[attached: " + clip(name, 300) + why + "]"}}
	}
	if named.Path == "" {
		return describe(named, ""), nil
	}
	a, data, err := t.run.Attachment(ctx, named, min(maxAttachment, maxAttachments-t.shown))
	switch {
	case errors.Is(err, plugins.ErrNoAttachment):
		return describe(named, ", which is not there any more"), nil
	case errors.Is(err, plugins.ErrAttachmentTooLarge):
		return describe(a, fmt.Sprintf(", %d bytes, too large to be shown", a.Size)), nil
	case err != nil:
		return nil, fmt.Errorf("attachment: %w", err)
	}
	kind, _, _ := strings.Cut(a.MimeType, ";")
	switch kind = strings.TrimSpace(kind); {
	case Textual(kind):
		if len(data) > maxText {
			return describe(a, fmt.Sprintf(", %d bytes, too large to be shown", a.Size)), nil
		}
		t.shown += int64(len(data))
		return append(describe(a, ":"), llms.TextContent{Text: strings.ToValidUTF8(string(data), "\uFFFD")}), nil
	case t.takes(kind, false):
		t.shown += int64(len(data))
		return append(describe(a, ":"), llms.BinaryContent{MIMEType: kind, Data: data}), nil
	}
	return describe(a, ", which cannot be shown"), nil
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
