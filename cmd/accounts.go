package cmd

import (
	"fmt"
	"log/slog"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth/jwt"
)

// addAccounts sets the authentication that the settings select.
func addAccounts(to *baton.Config, cfg *config.Auth, log *slog.Logger) error {
	switch cfg.Mode {
	case config.AuthAPIKey:
		to.APIKeys = true
	case config.AuthJWT:
		tokens, err := newTokens(cfg, log)
		if err != nil {
			return &usageError{fmt.Errorf("auth: %w", err)}
		}
		to.Accounts = tokens
	}
	return nil
}

func newTokens(cfg *config.Auth, log *slog.Logger) (*jwt.Tokens, error) {
	secret, err := cfg.SecretText()
	if err != nil {
		return nil, err
	}
	tokens := jwt.Config{
		Secret: []byte(secret), JWKS: cfg.JWKSURL, Issuer: cfg.Issuer, Audience: cfg.Audience,
		Log: log, UserClaim: cfg.UserClaim, ProjectsClaim: cfg.ProjectsClaim, RolesClaim: cfg.RolesClaim,
		Roles: make(map[string]runtime.Role),
	}
	names, err := cfg.RoleNames()
	if err != nil {
		return nil, err
	}
	for name, is := range names {
		if tokens.Roles[name], err = runtime.ParseRole(is); err != nil {
			return nil, fmt.Errorf("roles: %w", err)
		}
	}
	if cfg.DefaultRole != "none" {
		if tokens.Role, err = runtime.ParseRole(cfg.DefaultRole); err != nil {
			return nil, fmt.Errorf("default_role: %w", err)
		}
	}
	return jwt.New(tokens)
}
