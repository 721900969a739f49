package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The modes of Auth.
const (
	AuthNone   = "none"
	AuthAPIKey = "api-key"
	AuthJWT    = "jwt"
)

// problems returns the errors in the settings. Each begins with the name of its setting and quotes no secret.
func (a *Auth) problems() (errs []error) {
	if !slices.Contains([]string{AuthNone, AuthAPIKey, AuthJWT}, a.Mode) {
		errs = append(errs, fmt.Errorf("auth.mode: want none, api-key or jwt, got %q", a.Mode))
	}
	if _, err := a.RoleNames(); err != nil {
		errs = append(errs, fmt.Errorf("auth.roles: %w", err))
	}
	if a.Mode != AuthJWT {
		return errs
	}
	var given []string
	for name, val := range map[string]string{"BATON_JWT_SECRET": a.Secret, "auth.secret_file": a.SecretFile, "auth.jwks_url": a.JWKSURL} {
		if val != "" {
			given = append(given, name)
		}
	}
	if slices.Sort(given); len(given) == 0 {
		errs = append(errs, errors.New("auth.mode: jwt needs a secret (BATON_JWT_SECRET, or auth.secret_file) or public keys (auth.jwks_url, BATON_JWKS_URL)"))
	} else if len(given) > 1 {
		errs = append(errs, fmt.Errorf("auth.mode: jwt needs exactly one secret or key set; %s are set", strings.Join(given, " and ")))
	}
	return errs
}

// SecretText returns the secret that signs tokens, from Secret or SecretFile; empty for none.
func (a *Auth) SecretText() (string, error) {
	if a.SecretFile == "" {
		return a.Secret, nil
	}
	text, err := os.ReadFile(a.SecretFile)
	if err != nil {
		return "", fmt.Errorf("auth.secret_file: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", errors.New("auth.secret_file: the file is empty")
	}
	return secret, nil
}

// RoleNames maps the role names in tokens to Baton's, as Roles says.
func (a *Auth) RoleNames() (map[string]string, error) {
	names := make(map[string]string, len(a.Roles))
	for _, pair := range a.Roles {
		i := strings.LastIndexByte(pair, '=')
		if i <= 0 {
			return nil, fmt.Errorf("want name=role, such as platform-team=admin, got %q", pair)
		}
		names[strings.TrimSpace(pair[:i])] = strings.TrimSpace(pair[i+1:])
	}
	return names, nil
}
