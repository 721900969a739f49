// Package certs configures TLS with a certificate and a key in files, and reloads changed files.
package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are a certificate and its key.
type Files struct {
	cert, key string
	log       *slog.Logger
	every     time.Duration // is looked at them, while clients come

	mu   sync.Mutex // guards the fields below
	pair *tls.Certificate
	seen [2][sha256.Size]byte // of the files' content at the last read
	next time.Time            // when they are looked at again
}

// Load reads the PEM files; the certificate is followed by its intermediates. It fails if they cannot be read or do not
// match.
func Load(cert, key string, log *slog.Logger) (*Files, error) {
	return load(cert, key, log, 2*time.Second)
}

func load(cert, key string, log *slog.Logger, every time.Duration) (*Files, error) {
	f := &Files{cert: cert, key: key, log: log, every: every}
	var err error
	if f.seen, err = f.look(); err != nil {
		return nil, err
	}
	if f.pair, err = Pair(cert, key); err != nil {
		return nil, err
	}
	return f, nil
}

// Pair reads a certificate and its key.
func Pair(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	return &pair, nil
}

// Config returns a configuration for TLS 1.2 or later with the files' certificate, and HTTP/1.1.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current(), nil },
	}
}

// current is the certificate to use: the files' content of a moment ago, if it is valid. No goroutine watches the files.
func (f *Files) current() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.next) {
		return f.pair
	}
	f.next = now.Add(f.every)
	if seen, err := f.look(); seen != f.seen {
		f.seen = seen // an error is logged once per content
		f.reload(err)
	}
	return f.pair
}

// reload reads the files again, unless it is known that they cannot be. f.mu is held.
func (f *Files) reload(err error) {
	var pair *tls.Certificate
	if err == nil {
		pair, err = Pair(f.cert, f.key)
	}
	if err != nil {
		f.log.Error("the new certificate cannot be used; the old one stays", "error", err, "help", "baton doctor checks both files")
		return
	}
	f.pair = pair
	f.log.Info("a new certificate is in use", "file", f.cert, "expires", pair.Leaf.NotAfter)
}

// look hashes the files' content, as sizes and times may be unchanged.
func (f *Files) look() (seen [2][sha256.Size]byte, err error) {
	for i, file := range []string{f.cert, f.key} {
		text, err := os.ReadFile(file)
		if err != nil {
			return [2][sha256.Size]byte{}, err
		}
		seen[i] = sha256.Sum256(text)
	}
	return seen, nil
}
