package wire

import (
	"net/http"
	"strconv"
)

// rates are headers with the state of a provider's limits: OpenAI's, which many servers have, and Anthropic's.
var rates = []struct {
	requests                bool // or tokens
	limit, remaining, reset string
}{
	{true, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{false, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{true, "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{false, "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
}

// heed passes the limits in the headers of a response to the Pacer, and pauses if nothing is left.
func (e *Endpoint) heed(h http.Header) {
	for _, r := range rates {
		limit, _ := strconv.ParseInt(h.Get(r.limit), 10, 64)
		switch {
		case limit <= 0:
			continue
		case r.requests:
			e.pace.Model(e.Model).Tell(limit, 0)
		default:
			e.pace.Model(e.Model).Tell(0, limit)
		}
		if left, err := strconv.ParseInt(h.Get(r.remaining), 10, 64); err == nil && left <= 0 {
			e.pace.Model(e.Model).Pause(delay(h.Get(r.reset)))
		}
	}
}
