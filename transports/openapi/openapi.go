// Package openapi describes the server: the document /openapi.json in OpenAPI 3.1, and the page /docs that shows it without
// external files.
//
// There is a file per area of routes. The schemas of answers are inferred from the encoded types where possible, and their texts are
// the types' comments, which go generate writes to texts.json. The tests compare the other schemas with real answers, in both
// directions, and the document's routes with the mounted ones.
package openapi

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/static"
)

// Transport serves the document and the page. Create it with New.
type Transport struct {
	files func() (map[string]static.File, error) // by name
}

// New returns the transport of a server of that version; metrics is set if the server answers GET /metrics. The first request
// generates the document.
func New(version string, metrics bool) *Transport {
	return &Transport{sync.OnceValues(func() (map[string]static.File, error) { return files(version, metrics) })}
}

// Routes returns the routes of the document and the page.
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

// files makes the document, and returns it with the files of the page.
func files(version string, metrics bool) (map[string]static.File, error) {
	doc, err := describe(version, metrics)
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
	all[documentName] = static.New(fiber.MIMEApplicationJSON, body, false)
	return all, nil
}

// send answers with a file.
func (t *Transport) send(c *fiber.Ctx, name string) error {
	all, err := t.files()
	if err != nil {
		return err
	}
	f, ok := all[name]
	if !ok {
		return fiber.ErrNotFound
	}
	return f.Send(c, static.Asked)
}
