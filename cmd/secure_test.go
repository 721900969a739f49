package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	program "github.com/batonrun/baton"
	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/transports/certs/certstest"
)

// Commands trust the certificate in their settings, which the system does not trust.
func TestCommands_TrustCertificateInSettings(t *testing.T) {
	dir, db := t.TempDir(), database(t)
	certstest.Write(t, dir, "own", time.Now().Add(time.Hour))
	files := program.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	s, err := program.New(program.Config{Listen: "127.0.0.1:0", Database: db, Tuning: program.Tuning{TLS: files}, Plugins: builtin.Plugins()})
	if err == nil {
		err = s.Start(t.Context())
	}
	must(t, err)
	defer s.Close()
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Errorf("the server is at %s", s.URL())
	}
	settings := []string{"--listen", s.Addr(), "--tls-cert", files.CertFile, "--tls-key", files.KeyFile}
	baton(t.Context(), append([]string{"health"}, settings...)...).want(t, 0)
	baton(t.Context(), append([]string{"doctor", "--database", db}, settings...)...).want(t, 0)
	if r := baton(t.Context(), append([]string{"run", "--database", db, "echo", "hello"}, settings...)...).want(t, 0); !strings.Contains(r.stdout, "hello") {
		t.Errorf("run writes %s", r.stdout)
	}
	other := t.TempDir()
	certstest.Write(t, other, "other", time.Now().Add(time.Hour))
	settings[3], settings[5] = filepath.Join(other, "cert.pem"), filepath.Join(other, "key.pem")
	if r := baton(t.Context(), append([]string{"health"}, settings...)...); r.code == 0 {
		t.Errorf("another certificate was accepted: %s", r.stdout)
	}
}

func TestDoctor_ChecksCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for _, c := range []struct {
		until time.Duration
		want  string
		code  int
	}{
		{-time.Hour, "wrong  tls       The certificate " + cert + " expired", 1},
		{13 * 24 * time.Hour, "note   tls", 0},
		{15 * 24 * time.Hour, "ok     tls", 0},
	} {
		t.Chdir(t.TempDir())
		certstest.Write(t, dir, "test", time.Now().Add(c.until))
		if r := baton(t.Context(), "doctor", "--listen", cmdtest.Address(), "--tls-cert", cert, "--tls-key", key).want(t, c.code); !strings.Contains(r.stdout, c.want) {
			t.Errorf("no %q in\n%s", c.want, r.stdout)
		}
	}
	must(t, os.WriteFile(key, nil, 0o600))
	if r := baton(t.Context(), "doctor", "--listen", cmdtest.Address(), "--tls-cert", cert, "--tls-key", key).want(t, 1); !strings.Contains(r.stdout, "wrong  tls") {
		t.Errorf("got\n%s", r.stdout)
	}
}
