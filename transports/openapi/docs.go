package openapi

import (
	"cmp"
	"embed"
	"io/fs"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports/static"
)

// ui is the page: Swagger UI with its licences, and the script that starts it. Its README names the source.
//
//go:embed ui/*.html ui/*.js ui/*.css ui/*.gz ui/*.txt ui/LICENSE ui/NOTICE
var ui embed.FS

// kinds are the Content-Types of the page's files by the ends of their names. Others are plain text.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
}

// policy lets the page run its own scripts and connect to this server only. Swagger UI draws its icons from data URLs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageFiles returns the page's files by name.
func pageFiles() (map[string]static.File, error) {
	entries, err := fs.ReadDir(ui, "ui")
	if err != nil {
		return nil, err
	}
	files := make(map[string]static.File, len(entries))
	for _, e := range entries {
		body, err := ui.ReadFile("ui/" + e.Name())
		if err != nil {
			return nil, err
		}
		name, gzipped := strings.CutSuffix(e.Name(), ".gz")
		files[name] = static.New(cmp.Or(kinds[path.Ext(name)], "text/plain; charset=utf-8"), body, gzipped)
	}
	return files, nil
}

// page answers GET docs and its files.
func (t *Transport) page(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return t.send(c, c.Params("file", "index.html"))
}
