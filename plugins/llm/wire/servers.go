package wire

import (
	"slices"
	"strings"
)

// server is a known server with OpenAI's protocol.
type server struct {
	name  string
	hosts []string // its host, or the ends of its hosts
	path  string   // of its API
	adapt func(*Caps)
}

// servers are the known servers. They are recognized by their addresses alone: a model's name says nothing about the server.
var servers = []server{
	{"openai", []string{"api.openai.com"}, "/v1", func(c *Caps) {
		c.IDs, c.MaxTokens, c.Tools, c.Schema = ShortID, "max_completion_tokens", 128, OpenAISchema
		c.Media = append(c.Media, "application/pdf")
	}},
	{"azure", []string{".azure.com"}, "", func(c *Caps) {
		c.Description = 1024
		c.IDs, c.MaxTokens, c.Tools, c.Schema = ShortID, "max_completion_tokens", 128, OpenAISchema
		c.Media = append(c.Media, "application/pdf")
	}},
	{"mistral", []string{"api.mistral.ai"}, "/v1", func(c *Caps) { c.IDs, c.Bridge, c.FirstUser = NineID, true, true }},
	{"deepseek", []string{"api.deepseek.com"}, "", func(c *Caps) { c.Media = nil }},
	{"moonshot", []string{"api.moonshot.ai", "api.moonshot.cn"}, "/v1", func(c *Caps) { c.URLs = false }},
	{"groq", []string{"api.groq.com"}, "/openai/v1", func(*Caps) {}},
	{"openrouter", []string{"openrouter.ai"}, "/api/v1", func(c *Caps) { c.Media = append(c.Media, "application/pdf") }},
	{"gemini", []string{"generativelanguage.googleapis.com"}, "/v1beta/openai", func(c *Caps) { c.FirstUser, c.Content, c.Schema = true, "absent", GeminiSchema }},
	{"lmstudio", nil, "", func(c *Caps) { c.URLs = false }},
	{"llamacpp", nil, "", func(*Caps) {}},
	{"vllm", nil, "", func(*Caps) {}},
}

// serverOf returns the server of a name or, if name is "", of a host.
func serverOf(name, host string) (server, bool) {
	i := slices.IndexFunc(servers, func(s server) bool {
		return s.name == name || name == "" && slices.ContainsFunc(s.hosts, func(h string) bool {
			return host == h || strings.HasPrefix(h, ".") && strings.HasSuffix(host, h)
		})
	})
	if i < 0 {
		return server{}, false
	}
	return servers[i], true
}
