package wire

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/plugins/web"
)

// Config describes a model and how to reach it. Fields that a provider does not support are ignored.
type Config struct {
	Provider string // for provider.Open: openai, also for servers with its protocol; anthropic, google or ollama
	Model    string // required; provider.Open has defaults

	// BaseURL is the API's address, by default the provider's own. For servers with OpenAI's protocol it ends before
	// /chat/completions, usually in /v1; for Azure it is the resource's. For Ollama it can be partial, as in OLLAMA_HOST; default
	// http://127.0.0.1:11434.
	BaseURL string
	APIKey  string // required by Anthropic, Google and OpenAI itself

	// Reasoning is the effort: low, medium, high or another word of the model's, true or false for Ollama, or a number
	// of tokens for Anthropic and Google. By default the model decides.
	Reasoning string
	// MaxTokens limits an answer including its reasoning if the request does not. The default is the model's, 16 000 for
	// Anthropic.
	MaxTokens  int
	Headers    map[string]string // sent with each request
	HTTPClient *http.Client      // its CheckRedirect and Timeout are not used; by default each model has its own
	Pace       *pace.Pacer       // admits calls; it can be shared with other models of the provider, and by default each has its own
	Log        *slog.Logger      // receives what was learned from refusals; default slog.Default

	// API is "responses" or "chat", for OpenAI. The default is responses for OpenAI itself and chat for other servers.
	API string
	// APIVersion is the api-version of Azure, for OpenAI. With it the key is sent as api-key header.
	APIVersion string
	// Compat are the server's capabilities, where its address and its refusals do not suffice.
	Compat Compat
	// ContextTokens is the length of the context, for Ollama. The server's default is often 4 096; it silently drops the
	// start of longer conversations.
	ContextTokens int
}

// Compat describes the capabilities of a server. Zero fields mean the known ones of the server.
type Compat struct {
	Server      string   // a known server: openai, azure, mistral, deepseek, moonshot, groq, openrouter, gemini, lmstudio, llamacpp or vllm
	System      string   // message or user: where the instructions are
	First       string   // user if the conversation has to begin with a user's message
	Bridge      bool     // an assistant's message has to be between a tool's result and a user's message
	Content     string   // beside calls: empty, absent or null
	CallIDs     string   // any, nine, word or short
	Reasoning   string   // member for earlier reasoning: none, reasoning or reasoning_content
	Media       []string // media types of images and files that the model takes
	Tools       int      // maximum number of tools
	Description int      // maximum length of a tool's description in bytes
	Schema      string   // dialect of tools' schemas: json, openai, anthropic, gemini or ollama
}

// apply changes caps as c says.
func (c *Compat) apply(caps *Caps) {
	switch c.System {
	case "message":
		caps.System = ""
	case User:
		caps.System = User
	}
	caps.FirstUser = caps.FirstUser || c.First == User
	caps.Bridge = caps.Bridge || c.Bridge
	caps.Content = cmp.Or(c.Content, caps.Content)
	if caps.IDs = cmp.Or(IDForm(c.CallIDs), caps.IDs); caps.IDs == "any" {
		caps.IDs = AnyID
	}
	caps.Reasoning = cmp.Or(c.Reasoning, caps.Reasoning)
	if c.Media != nil {
		caps.Media = c.Media
	}
	caps.Tools, caps.Description = cmp.Or(c.Tools, caps.Tools), cmp.Or(c.Description, caps.Description)
	caps.Schema = cmp.Or(Dialect(c.Schema), caps.Schema)
}

// Endpoint checks cfg, normalizes its BaseURL with the given default and returns an Endpoint without credentials. caps is what
// the provider accepts.
func (cfg *Config) Endpoint(provider, baseURL string, caps Caps) (*Endpoint, error) {
	base, err := cfg.address(provider, baseURL)
	if err != nil {
		return nil, err
	}
	if provider == "openai" && cfg.APIVersion != "" {
		cfg.Compat.Server = cmp.Or(cfg.Compat.Server, "azure")
	}
	s, known := serverOf(cfg.Compat.Server, base.Hostname())
	switch {
	case !known && cfg.Compat.Server != "":
		return nil, fmt.Errorf("%s: compat: server %q is not known", provider, cfg.Compat.Server)
	case provider != "openai":
		s = server{}
	case s.name == "azure":
		base.Path = azure(base.Path, cfg.API, cfg.APIVersion, cfg.Model)
	case base.Path == "":
		base.Path = s.path
	}
	if s.adapt != nil {
		caps.Media = slices.Clone(caps.Media)
		s.adapt(&caps)
	}
	cfg.Compat.apply(&caps)
	cfg.BaseURL = base.String()
	e := &Endpoint{
		Server: s.name, Provider: provider, Model: cfg.Model, Secret: cfg.APIKey, Client: web.NewClient(cfg.HTTPClient), Header: http.Header{},
		Log: cfg.Log, address: hashed(cfg.BaseURL)[:8], known: &knowledge{caps: caps}, pace: cfg.Pace,
	}
	if e.pace == nil {
		e.pace = pace.New()
	}
	for name, value := range cfg.Headers {
		e.Header.Set(name, value)
	}
	return e, nil
}

// Authorize sets a header with a credential unless the Config's headers have it.
func (e *Endpoint) Authorize(header, value string) {
	if e.Header.Get(header) == "" {
		e.Header.Set(header, value)
	}
}
