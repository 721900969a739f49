package cmd

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/storage/blob/cloud"
	"github.com/batonrun/baton/transports/telemetry/traces"
)

// tokens looks at what tokens are signed with.
func (d *doctor) tokens(ctx context.Context, cfg *config.Auth) {
	if cfg.Mode != config.AuthJWT {
		return
	}
	tokens, err := newTokens(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		d.fault("accounts", "No token can be checked: %v.", err)
		return
	}
	if cfg.JWKSURL == "" {
		d.ok("accounts", "Tokens are signed with a secret that is long enough.")
		return
	}
	if err := tokens.Reach(ctx); err != nil {
		d.fault("accounts", "The keys that tokens are signed with are not to be had from auth.jwks_url: %v. Nobody gets in until they are.", err)
		return
	}
	d.ok("accounts", "The keys that tokens are signed with are to be had from auth.jwks_url.")
}

// collector looks at where spans are sent.
func (d *doctor) collector(ctx context.Context) {
	at, err := traces.Collector()
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var c net.Conn
		if c, err = new(net.Dialer).DialContext(ctx, "tcp", at); err == nil {
			_ = c.Close()
		}
	}
	if err != nil {
		d.note("traces", "The collector of the OTEL_ variables is not reached: %v. Spans are lost until it is, and nothing else.", err)
		return
	}
	d.ok("traces", "Spans are sent as the OTEL_ variables say, to %s.", at)
}

// attached looks at where attachments are kept.
func (d *doctor) attached(ctx context.Context, cfg *config.Config) {
	if url := cfg.Attachments.URL; url != "" {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		bucket, err := cloud.Open(ctx, url)
		if err == nil {
			err = errors.Join(bucket.Reach(ctx), bucket.Close())
		}
		if err != nil {
			d.fault("files", "The bucket of attachments.url cannot be used: %v. Look at its name, region and endpoint, and at the credentials.", err)
			return
		}
		d.ok("files", "The bucket of attachments.url is reached.")
		return
	}
	dir := cfg.Attachments.Directory
	if dir == "" {
		file, _ := strings.CutPrefix(cfg.Database, "sqlite:")
		if file == cfg.Database {
			file = ""
		}
		dir = filepath.Join(filepath.Dir(file), "baton-attachments")
	}
	there := dir // or what it would be made in
	for _, err := os.Stat(there); errors.Is(err, fs.ErrNotExist) && there != filepath.Dir(there); _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	f, err := os.CreateTemp(there, ".baton-doctor-")
	if err != nil {
		d.fault("files", "Attachments cannot be kept in %s: %v. Name another in attachments.directory, or have this user write there.", dir, err)
		return
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	d.ok("files", "Attachments are kept in %s.", dir)
}
