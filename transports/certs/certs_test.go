package certs

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/transports/certs/certstest"
)

// TestFilesAreReadAgain: what is in the files when they change is used from then on, what is no pair never.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(name string) { certstest.Write(t, dir, name, time.Now().Add(time.Hour)) }
	write("first")
	var log bytes.Buffer
	f, err := load(cert, key, slog.New(slog.NewTextHandler(&log, nil)), 0)
	if err != nil {
		t.Fatal(err)
	}
	config := f.Config()
	current := func() string {
		t.Helper()
		pair, err := config.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.Subject.CommonName
	}
	is := func(want string, logged int, word string) {
		t.Helper()
		for range 3 { // a mistake is told once
			if got := current(); got != want {
				t.Errorf("got the certificate %q, want %q", got, want)
			}
		}
		if got := strings.Count(log.String(), word); got != logged {
			t.Errorf("logged %q %d times, want %d: %s", word, got, logged, &log)
		}
	}
	is("first", 0, "certificate")
	write("the second one")
	is("the second one", 1, "a new certificate is in use")
	mine, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	write("another, the third")
	third, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, append(mine, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	is("the second one", 1, "the old one stays") // a certificate with the key of another
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	is("the second one", 2, "the old one stays")
	if err := os.WriteFile(key, third, 0o600); err != nil {
		t.Fatal(err)
	}
	is("another, the third", 2, "a new certificate is in use")

	at := func() (info [2]os.FileInfo) {
		for i, file := range []string{cert, key} {
			if info[i], err = os.Stat(file); err != nil {
				t.Fatal(err)
			}
		}
		return info
	}
	for before := at(); ; { // one of the same size and time, as tools leave it that keep times
		write("another, the forth")
		same := true
		for i, info := range at() {
			same = same && info.Size() == before[i].Size()
			if err := os.Chtimes([]string{cert, key}[i], time.Time{}, before[i].ModTime()); err != nil {
				t.Fatal(err)
			}
		}
		if same {
			break
		}
	}
	is("another, the forth", 3, "a new certificate is in use")
}

func TestFilesThatAreNoPairAreRefused(t *testing.T) {
	t.Parallel()
	one, other := t.TempDir(), t.TempDir()
	certstest.Write(t, one, "one", time.Now().Add(time.Hour))
	certstest.Write(t, other, "other", time.Now().Add(time.Hour))
	for _, files := range [][2]string{
		{filepath.Join(one, "cert.pem"), filepath.Join(other, "key.pem")},
		{filepath.Join(one, "cert.pem"), filepath.Join(one, "none.pem")},
		{filepath.Join(one, "key.pem"), filepath.Join(one, "cert.pem")},
	} {
		if _, err := Load(files[0], files[1], slog.Default()); err == nil || !strings.Contains(err.Error(), ".pem") {
			t.Errorf("%v: got %v, want an error that names a file", files, err)
		}
	}
}
