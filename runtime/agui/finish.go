package agui

import "encoding/json"

// FinishMetadata is the provider and model of the last call, and the run's tokens.
type FinishMetadata struct {
	Provider          string `json:"provider"` // Of the last model call.
	Model             string `json:"model"`
	InputTokens       int64  `json:"inputTokens"` // Sum over the run.
	OutputTokens      int64  `json:"outputTokens"`
	CachedInputTokens int64  `json:"cachedInputTokens,omitempty"`
	ReasoningTokens   int64  `json:"reasoningTokens,omitempty"`
	FinishReason      string `json:"finishReason"`
	ProviderRequestID string `json:"providerRequestId,omitempty"`
}

// JSON returns m in the form of Base.Metadata.
func (m FinishMetadata) JSON() json.RawMessage {
	dst := appendStr([]byte{'{'}, "provider", m.Provider)
	dst = appendStr(dst, "model", m.Model)
	dst = appendInt(dst, "inputTokens", m.InputTokens)
	dst = appendInt(dst, "outputTokens", m.OutputTokens)
	dst = appendOptInt(dst, "cachedInputTokens", m.CachedInputTokens)
	dst = appendOptInt(dst, "reasoningTokens", m.ReasoningTokens)
	dst = appendStr(dst, "finishReason", m.FinishReason)
	dst = appendOptStr(dst, "providerRequestId", m.ProviderRequestID)
	return append(dst, '}')
}

// isFinishMetadata reports whether raw has FinishMetadata's members and no others.
func isFinishMetadata(raw json.RawMessage) bool {
	if !json.Valid(raw) {
		return false
	}
	for _, name := range []string{"provider", "model", "inputTokens", "outputTokens", "finishReason"} {
		if lookup(raw, name) == nil {
			return false
		}
	}
	return nil == eachMember(raw, func(name string, val []byte) error {
		ok := false
		switch name {
		case "provider", "model", "finishReason", "providerRequestId":
			ok = val[0] == '"'
		case "inputTokens", "outputTokens", "cachedInputTokens", "reasoningTokens":
			ok = val[0] == '-' || val[0] >= '0' && val[0] <= '9'
		}
		if !ok {
			return errShape
		}
		return nil
	})
}
