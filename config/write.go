package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes the settings as a file for Load, with secrets masked.
func (c Config) WriteYAML(w io.Writer) error {
	c.Database, c.NATS = masked(c.Database), maskedNATS(c.NATS)
	c.Auth.Secret = "" // a file must not contain it
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return enc.Close()
}

// String returns the output of WriteYAML.
func (c Config) String() string {
	var b strings.Builder
	if err := c.WriteYAML(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

// LogValue returns String, so that log handlers do not see secrets.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

const hidden = "xxxxx"

// masked returns the address of a database without passwords. It hides malformed addresses completely, because a
// password that contains # or / is parsed as another part of the URL.
func masked(database string) string {
	if strings.HasPrefix(database, "sqlite:") {
		return database
	}
	u, err := url.Parse(database)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host+u.Path == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return hidden
	}
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, hidden)
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// maskedNATS returns the addresses of NATS servers without their users, which may be tokens. It hides malformed ones completely.
func maskedNATS(addresses string) string {
	if addresses == "" {
		return ""
	}
	parts := strings.Split(addresses, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
			return hidden
		}
		if u.User != nil {
			u.User = url.User(hidden)
		}
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}
