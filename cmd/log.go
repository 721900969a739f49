package cmd

import (
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/mattn/go-isatty"

	"github.com/batonrun/baton/config"
)

// newLogger returns a logger to w, which is standard error but in tests.
func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.Level, ReplaceAttr: guarded}
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// aside returns a logger for a server inside a command that talks to a person: what is in order is not told beside the
// answers, unless debug is asked for.
func aside(cfg config.Log, w io.Writer) *slog.Logger {
	if cfg.Level == slog.LevelInfo {
		cfg.Level = slog.LevelWarn
	}
	return newLogger(cfg, w)
}

// guarded takes out of the URLs that errors quote what may be secret: an agent or a tool may have put a token there.
func guarded(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(withoutSecrets(err.Error()))
	}
	return a
}

var quoted = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+`)

// withoutSecrets leaves scheme, host and path of the URLs in a text.
func withoutSecrets(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(s string) string {
		u, err := url.Parse(s)
		if err != nil {
			scheme, _, _ := strings.Cut(s, "://")
			return scheme + "://…"
		}
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	})
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
