package cmd

import (
	"bytes"
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	fiberlog "github.com/gofiber/fiber/v2/log"
	"github.com/mattn/go-isatty"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
)

// newLogger returns a logger that writes to w. Plugins and libraries that have a logger for the whole process write to it, too.
func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	if cfg.Format == "auto" && isTerminal(w) {
		cfg.Format = "text"
	}
	h := newHandler(cfg, w)
	if p, ok := w.(*printer); ok {
		p.reportAs(func(dropped int) []byte {
			var line bytes.Buffer
			slog.New(newHandler(cfg, &line)).Error("log lines were dropped, because the log could not be written", "lines", dropped)
			return line.Bytes()
		})
	}
	log := slog.New(h)
	slog.SetDefault(log) // the logger of package log, and so of net/http and of libraries
	fiberlog.SetOutput(slog.NewLogLogger(h, slog.LevelWarn).Writer())
	return log
}

func newHandler(cfg config.Log, w io.Writer) slog.Handler {
	opts := &slog.HandlerOptions{Level: cfg.Level, ReplaceAttr: readable}
	if cfg.Format == "text" {
		return slog.NewTextHandler(w, opts)
	}
	return slog.NewJSONHandler(w, opts)
}

// quietLogger returns a logger for a server inside an interactive command. It drops messages of level info, unless the level
// is debug.
func quietLogger(cfg config.Log, w io.Writer) *slog.Logger {
	if cfg.Level == slog.LevelInfo {
		cfg.Level = slog.LevelWarn
	}
	return newLogger(cfg, w)
}

// readable writes durations as text and names the level of expected ends. It removes possible secrets from URLs in all texts: agents,
// tools and libraries may put tokens there.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(withoutSecrets(v))
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
	if p, ok := w.(*printer); ok {
		w = p.to
	}
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
