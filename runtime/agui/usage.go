package agui

import "unicode/utf8"

// Limits of a sum of tokens, whose parts may be untrusted.
const (
	maxModels = 64        // entries
	maxName   = 200       // bytes of a provider's or a model's name
	maxTokens = 1<<53 - 1 // of each kind; larger numbers are not exact in JSON
)

// OtherModels is the name of the model under which tokens are summed that are over the bounds of a list.
const OtherModels = "other"

// AddUsage adds tokens to those of the same provider and model in list, which it changes, and returns it. A list is bounded: names
// are cut, and in a long list all further models share an entry.
func AddUsage(list []TokenUsage, u TokenUsage) []TokenUsage {
	u.Provider, u.Model = cut(u.Provider), cut(u.Model)
	if addTo(list, &u) {
		return list
	}
	if len(list) >= maxModels-1 {
		u.Provider, u.Model = "", OtherModels
		if addTo(list, &u) {
			return list
		}
	}
	sum := TokenUsage{Provider: u.Provider, Model: u.Model}
	sum.add(&u)
	return append(list, sum)
}

func addTo(list []TokenUsage, u *TokenUsage) bool {
	for i := range list {
		if list[i].Provider == u.Provider && list[i].Model == u.Model {
			list[i].add(u)
			return true
		}
	}
	return false
}

func (sum *TokenUsage) add(u *TokenUsage) {
	for _, n := range []struct {
		sum *int64
		of  int64
	}{
		{&sum.InputTokens, u.InputTokens},
		{&sum.OutputTokens, u.OutputTokens},
		{&sum.TotalTokens, u.TotalTokens},
		{&sum.ReasoningTokens, u.ReasoningTokens},
		{&sum.CachedInputTokens, u.CachedInputTokens},
		{&sum.CacheWriteInputTokens, u.CacheWriteInputTokens},
	} {
		*n.sum = min(*n.sum+min(n.of, maxTokens), maxTokens)
	}
}

// cut is a name within the bound, at a rune's edge.
func cut(name string) string {
	if len(name) <= maxName {
		return name
	}
	n := maxName
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}
