package baton_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/storage/postgrestest"
)

// cluster starts two servers on one database.
func cluster(t *testing.T, cfg baton.Config) (x, y *baton.Server) {
	t.Helper()
	cfg.Database, cfg.Listen = postgrestest.New(t), "127.0.0.1:0"
	return open(t, cfg), open(t, cfg)
}

// Servers of a cluster keep attachments where all find them, also without a setting.
func TestCluster_ServesAttachmentsOfOtherServers(t *testing.T) {
	x, y := cluster(t, baton.Config{})
	const path = "/api/v1/agent/attachments"
	content := strings.Repeat("a large text file\n", 50_000)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte(content))
	_ = form.Close()
	var up struct{ Bucket, Path string }
	sent := answer(t, send(t, http.MethodPost, x.URL()+path, body.String(), "Content-Type", form.FormDataContentType()))
	if err := json.Unmarshal([]byte(sent), &up); err != nil || up.Path == "" {
		t.Fatalf("%v: %s", err, sent)
	}
	if err := x.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var at struct{ URL string }
	signed := answer(t, send(t, http.MethodGet, y.URL()+path+"/signed-url?"+url.Values{"bucket": {up.Bucket}, "path": {up.Path}}.Encode(), ""))
	if err := json.Unmarshal([]byte(signed), &at); err != nil || at.URL == "" {
		t.Fatalf("%v: %s", err, signed)
	}
	if got := answer(t, send(t, http.MethodGet, at.URL, "")); got != content {
		t.Errorf("%d bytes come back: %.100s", len(got), got)
	}
}
