// Package openapi describes the server: the document /openapi.json in OpenAPI 3.1, and the page /docs that
// shows it without the internet.
//
// A file per area says what its routes take and answer. The schemas of answers are inferred from the types
// that are encoded, where they have any; the tests compare the rest with what a server really sends, in both
// directions, and the document's routes with those that are mounted.
package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports"
)

// Transport serves the document and the page. Create it with New.
type Transport struct {
	files func() (map[string]file, error) // by name
}

// New returns the transport of a server of that version. The document is made when somebody first asks.
func New(version string) *Transport {
	return &Transport{sync.OnceValues(func() (map[string]file, error) { return files(version) })}
}

// Routes are the document and the page.
func (t *Transport) Routes() []transports.Route {
	return []transports.Route{
		{Method: fiber.MethodGet, Path: "/openapi.json", Public: t.document},
		{Method: fiber.MethodGet, Path: "/docs", Public: t.page},
		{Method: fiber.MethodGet, Path: "/docs/:file", Public: t.page},
	}
}

// document answers GET openapi.json.
func (t *Transport) document(c *fiber.Ctx) error { return t.send(c, documentName) }

const documentName = "openapi.json"

// file is what is served under one path.
type file struct {
	kind    string // its Content-Type
	etag    string
	gzipped bool
	body    []byte
}

func newFile(kind string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{kind: kind, etag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, body: body}
}

// files makes the document, and returns it with the files of the page.
func files(version string) (map[string]file, error) {
	doc, err := describe(version)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	all, err := pageFiles()
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	all[documentName] = newFile(fiber.MIMEApplicationJSON, body)
	return all, nil
}

// send answers with a file, or with 304 when the client has it.
func (t *Transport) send(c *fiber.Ctx, name string) error {
	all, err := t.files()
	if err != nil {
		return err
	}
	f, ok := all[name]
	if !ok {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Set(fiber.HeaderETag, f.etag)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	if known := c.Get(fiber.HeaderIfNoneMatch); known == "*" || slices.Contains(strings.Split(known, ", "), f.etag) {
		return c.SendStatus(fiber.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, f.kind)
	if !f.gzipped {
		return c.Send(f.body)
	}
	c.Vary(fiber.HeaderAcceptEncoding)
	if c.Request().Header.HasAcceptEncoding("gzip") {
		c.Set(fiber.HeaderContentEncoding, "gzip")
		return c.Send(f.body)
	}
	plain, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		return err
	}
	return c.SendStream(plain)
}
