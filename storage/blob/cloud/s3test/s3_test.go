// Package s3test holds package cloud against a server that speaks S3, in this process and on loopback. It is a module of its own,
// so that what the server depends on is not in the module graph of Baton's users.
package s3test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/batonrun/baton/storage/blob/cloud"
)

// bucket starts a server with a bucket, and opens it. There is one in a process.
func bucket(t *testing.T) *cloud.Bucket {
	t.Helper()
	dir, side := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "meta")
	for _, d := range []string{filepath.Join(dir, "files"), side} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir) // the server goes there
	records, err := meta.NewSideCar(side)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := posix.New(dir, records, posix.PosixOpts{SideCarDir: side})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { // ends with cancel
		served <- embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
			RootUserAccess: "access", RootUserSecret: "secret", Region: "us-east-1", Ports: []string{addr}, Quiet: true,
			MaxConnections: 1000, MaxRequests: 1000, MultipartMaxParts: 10000,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(10 * time.Minute); ; <-time.After(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case err := <-served:
			t.Fatalf("the server has ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "access")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	b, err := cloud.Open(t.Context(), "s3://files?region=us-east-1&endpoint=http://"+addr+"&use_path_style=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestBucketKeepsBlobs(t *testing.T) {
	b := bucket(t)
	ctx := t.Context()
	large := make([]byte, 12<<20) // several parts
	_, _ = rand.Read(large)
	for key, data := range map[string][]byte{"p/agent-inputs/a%40b/1.txt": []byte("one"), "p/agent-inputs/a/2.bin": large, "p/agent-inputs/a/empty": {}} {
		if err := b.Put(ctx, key, "text/plain", "attachment; filename=a.txt", bytes.NewReader(data)); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		r, err := b.Open(ctx, key)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		got, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v, want %d", key, len(got), err, len(data))
		}
		url, err := b.URL(ctx, key, time.Minute)
		if err != nil || url == "" {
			t.Fatalf("%q, %v", url, err)
		}
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		got, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != 200 || !bytes.Equal(got, data) ||
			res.Header.Get("Content-Type") != "text/plain" || res.Header.Get("Content-Disposition") != "attachment; filename=a.txt" {
			t.Errorf("%s: %d %d bytes, %v %v", url, res.StatusCode, len(got), err, res.Header)
		}
		if res, err = http.Get(strings.Replace(url, "X-Amz-Signature=", "X-Amz-Signature=0", 1)); err != nil || res.StatusCode != 403 {
			t.Errorf("with another signature: %v, %v", res, err)
		}
		_ = res.Body.Close()
		for range 2 {
			if err := b.Delete(ctx, key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if _, err := b.Open(ctx, key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", key, err)
		}
	}
	broken := errors.New("broken")
	for _, n := range []int{10, 7 << 20} {
		err := b.Put(ctx, "p/broken", "text/plain", "", io.MultiReader(bytes.NewReader(large[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if _, err := b.Open(ctx, "p/broken"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what broke off after %d bytes is there: %v", n, err)
		}
	}
}
