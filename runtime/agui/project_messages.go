package agui

import (
	"encoding/json"
	"slices"
)

// projectMessages returns the messages of list that p admits, as p sees them.
func projectMessages(list []Message, p Projection) []Message {
	out := make([]Message, 0, len(list))
	for _, m := range list {
		if p.strict() {
			m = m.WithoutRepeats()
		}
		if p.legacy() && m.Parts != nil {
			m = legacyMessage(m, p)
		}
		if p == Public {
			m = withoutValues(m)
		}
		if p != Public || publicMessage(&m) {
			out = append(out, m)
		}
	}
	return out
}

// withoutValues returns m without the opaque values of providers, whose event Public leaves out.
func withoutValues(m Message) Message {
	m.EncryptedValue, m.ToolCalls = "", slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].EncryptedValue = ""
	}
	return m
}

// legacyMessage returns m, which has parts, as dialect 0.0 knows it.
func legacyMessage(m Message, p Projection) Message {
	switch m.Role {
	case RoleTool:
		m.Content, m.Parts = partsText(m.Parts), nil
	case RoleUser:
		m.Parts = legacyParts(m.Parts, p)
	}
	return m
}

// WithoutRepeats returns m without the metadata that repeats its content.
func (m Message) WithoutRepeats() Message {
	m.Metadata = slim(m.Metadata)
	return m
}

// slim returns metadata without the parts that repeat the message's content, as clients send metadata back with every
// request.
func slim(metadata json.RawMessage) json.RawMessage {
	if metadata == nil {
		return nil
	}
	worker, tool := lookup(metadata, "workerAgentOutput"), lookup(metadata, "toolAgentOutput")
	if worker == nil && tool == nil {
		return metadata
	}
	dst := appendMembersBut([]byte{'{'}, metadata, func(name string) bool {
		return name == "workerAgentOutput" || name == "toolAgentOutput"
	})
	var w *WorkerOutput
	if worker != nil && setStruct(&w, "", worker) == nil && w != nil && w.says() {
		dst = w.append(appendKey(dst, "workerAgentOutput"), false)
	}
	var t *ToolOutput
	if tool != nil && setStruct(&t, "", tool) == nil && t != nil {
		dst = t.append(appendKey(dst, "toolAgentOutput"), false)
	}
	if len(dst) == 1 {
		return nil
	}
	return append(dst, '}')
}

// legacyParts returns a user message's parts in dialect 0.0: text, and media from data or a URL. In Public all media have the
// type binary; a provider's file becomes one with its handle as id.
func legacyParts(raw json.RawMessage, p Projection) json.RawMessage {
	dst := []byte{'['}
	_ = eachElement(raw, func(val []byte) error {
		var part Part
		err := json.Unmarshal(val, &part)
		switch {
		case err != nil:
		case part.Type == "text":
			dst = append(appendComma(dst), `{"type":"text"`...)
			dst = append(appendStr(dst, "text", part.Text), '}')
		case part.Source == nil:
		case p == Public || part.Source.Type == "file":
			dst = appendBinary(appendComma(dst), part)
		default:
			dst = append(appendComma(dst), val...)
		}
		return nil
	})
	return append(dst, ']')
}
