package wire

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// endings are the paths of endpoints, which are removed from an address that was pasted whole.
var endings = map[string]*regexp.Regexp{
	"openai":    regexp.MustCompile(`/(chat/completions|completions|responses|embeddings|models)$`),
	"anthropic": regexp.MustCompile(`(/v1)?(/messages|/models)?$`),
	"google":    regexp.MustCompile(`(/v1beta|/v1)?(/models(/[^/]*)?)?$`),
	"ollama":    regexp.MustCompile(`/(api|v1)(/[a-z/]+)?$`),
}

// address normalizes the key, the model and the base URL. Its errors have no credentials.
func (cfg *Config) address(provider, baseURL string) (*url.URL, error) {
	cfg.Model, cfg.APIVersion = strings.TrimSpace(cfg.Model), strings.TrimSpace(cfg.APIVersion)
	if cfg.APIKey = strings.TrimSpace(cfg.APIKey); strings.ContainsFunc(cfg.APIKey, notInKey) {
		return nil, errors.New(provider + ": the API key has a space, a quote, a line break or a letter outside ASCII; want the key alone, without Bearer")
	}
	if cfg.Model == "" {
		return nil, errors.New(provider + ": no model is named")
	}
	base, err := url.Parse(strings.TrimSpace(cmp.Or(cfg.BaseURL, baseURL)))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New(provider + ": the base URL is not a URL such as https://example.com/v1")
	}
	query := base.Query()
	cfg.APIVersion = cmp.Or(cfg.APIVersion, query.Get("api-version"))
	if query.Del("api-version"); len(query) > 0 || base.Fragment != "" {
		return nil, errors.New(provider + ": the base URL ends before /chat/completions or its like, and has no query and no fragment")
	}
	base.RawQuery, base.ForceQuery, base.RawPath = "", false, ""
	base.Path = strings.TrimRight(base.Path, "/")
	if end := endings[provider]; end != nil {
		base.Path = strings.TrimRight(end.ReplaceAllString(base.Path, ""), "/")
	}
	return base, nil
}

func notInKey(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' }

// azure completes the address of an Azure resource: chat completions of an api-version are below a deployment, which is named as
// the model; without a version there is one address for all.
func azure(path, api, version, model string) string {
	path = strings.TrimSuffix(path, "/openai")
	switch {
	case version == "" && path == "":
		return "/openai/v1"
	case api == "responses" && (path == "" || strings.HasPrefix(path, "/openai/deployments/")):
		return "/openai"
	case path == "":
		return "/openai/deployments/" + model
	}
	return path
}
