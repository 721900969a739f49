package mcp

import (
	"errors"
	"net/url"

	"github.com/batonrun/baton/plugins/problem"
)

func secrets(cfg *Config) *problem.Secrets {
	var urls []*url.URL
	if u, err := url.Parse(cfg.URL); err == nil {
		urls = append(urls, u)
	}
	return problem.NewSecrets(cfg.Headers, cfg.Env, urls...)
}

// redact returns err's text without secrets. The result does not wrap err.
func (s *Server) redact(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(s.secrets.Hide(err.Error()))
}
