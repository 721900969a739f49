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
	"github.com/batonrun/baton/runtime/bus/natsbus"
	"github.com/batonrun/baton/storage/blob/cloud"
	"github.com/batonrun/baton/transports/telemetry/traces"
)

// tokens checks the keys that verify tokens.
func (d *doctor) tokens(ctx context.Context, cfg *config.Auth) {
	if cfg.Mode != config.AuthJWT {
		return
	}
	tokens, err := newTokens(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		d.fault("accounts", "Tokens cannot be verified: %v.", err)
		return
	}
	if cfg.JWKSURL == "" {
		d.ok("accounts", "The secret that signs tokens is long enough.")
		return
	}
	if err := tokens.Reach(ctx); err != nil {
		d.fault("accounts", "The public keys cannot be fetched from auth.jwks_url: %v. Until then all requests are rejected.", err)
		return
	}
	d.ok("accounts", "The public keys can be fetched from auth.jwks_url.")
}

// collector checks the connection to the collector of traces.
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
		d.note("traces", "The collector in the OTEL_ variables is not reachable: %v. Until then only spans are lost.", err)
		return
	}
	d.ok("traces", "The OTEL_ variables send spans to %s.", at)
}

// hints checks the NATS servers.
func (d *doctor) hints(ctx context.Context, address string) {
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	took := time.Duration(0)
	servers, err := natsbus.Parse(address)
	if err == nil {
		took, err = servers.Reach(ctx)
	}
	if err != nil {
		d.note("nats", "NATS cannot be used: %v. Until it can, servers learn up to a second later what concerns them. Check the addresses, the credentials and the permission to use the subjects baton.>.", err)
		return
	}
	d.ok("nats", "NATS is reachable and carries a hint within %v.", took.Round(10*time.Microsecond))
}

// attachments checks the storage of attachments.
func (d *doctor) attachments(ctx context.Context, cfg *config.Config) {
	if url := cfg.Attachments.URL; url != "" {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		bucket, err := cloud.Open(ctx, url)
		if err == nil {
			err = errors.Join(bucket.Reach(ctx), bucket.Close())
		}
		if err != nil {
			d.fault("files", "The bucket in attachments.url cannot be used: %v. Check its name, region and endpoint, and the credentials.", err)
			return
		}
		d.ok("files", "The bucket in attachments.url is reachable.")
		return
	}
	dir := cfg.Attachments.Directory
	if dir == "" {
		file, ok := strings.CutPrefix(cfg.Database, "sqlite:")
		if !ok {
			d.ok("files", "Attachments are stored in the database.")
			return
		}
		dir = filepath.Join(filepath.Dir(file), "baton-attachments")
	}
	if err := writable(dir); err != nil {
		d.fault("files", "Attachments cannot be stored in %s: %v. Set another attachments.directory, or make it writable for this user.", dir, err)
		return
	}
	d.ok("files", "Attachments are stored in %s.", dir)
}

// writable fails if no file can be made in a directory, or in its nearest parent that exists.
func writable(dir string) error {
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".baton-doctor-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
