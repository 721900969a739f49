package cmd

import (
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
)

// newLogger returns a logger that writes to w.
func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: cfg.Level, ReplaceAttr: readable}
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// quietLogger returns a logger for a server inside an interactive command. It drops messages of level info, unless the level
// is debug.
func quietLogger(cfg config.Log, w io.Writer) *slog.Logger {
	if cfg.Level == slog.LevelInfo {
		cfg.Level = slog.LevelWarn
	}
	return newLogger(cfg, w)
}

// readable writes durations as text and names the level of expected ends. It removes possible secrets from URLs in errors: agents and
// tools may put tokens there.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case error:
		a.Value = slog.StringValue(withoutSecrets(v.Error()))
	case time.Duration:
		a.Value = slog.StringValue(v.String())
	case slog.Level:
		if v == runtime.LevelNotice {
			a.Value = slog.StringValue("NOTICE")
		}
	}
	return a
}

var quoted = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+`)

// withoutSecrets reduces the URLs in a text to scheme, host and path.
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
