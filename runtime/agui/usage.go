package agui

// AddUsage adds tokens to those of the same provider and model in list, which it changes, and returns it.
func AddUsage(list []TokenUsage, u TokenUsage) []TokenUsage {
	for i := range list {
		sum := &list[i]
		if sum.Provider != u.Provider || sum.Model != u.Model {
			continue
		}
		sum.InputTokens += u.InputTokens
		sum.OutputTokens += u.OutputTokens
		sum.TotalTokens += u.TotalTokens
		sum.ReasoningTokens += u.ReasoningTokens
		sum.CachedInputTokens += u.CachedInputTokens
		sum.CacheWriteInputTokens += u.CacheWriteInputTokens
		return list
	}
	return append(list, u)
}
