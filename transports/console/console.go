// Package console serves the console: a web page that shows and controls runs. It consists of the files in dist, which are built
// from web; see docs/console.md. The files contain no data of users: the page reads the API like any client.
package console

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/static"
)

//go:embed dist
var dist embed.FS

// kinds are the Content-Types of files by the ends of their names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy lets the page run its own scripts and connect to this server only. Images may also be inline, in a message or before an
// upload. Styles set by scripts need no exception.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// sections are the parts of the console. The page serves all paths below them, and reads its own address.
var sections = []string{"runs", "compare", "threads", "playground", "agents", "waiting", "admin", "p"}

// Transport serves the console. Create it with New.
type Transport struct {
	index  static.File
	assets map[string]static.File // by name
}

// New returns the transport. It fails when the program was built without the files.
func New() (*Transport, error) {
	t := &Transport{assets: map[string]static.File{}}
	return t, fs.WalkDir(dist, "dist", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := dist.ReadFile(file)
		if err != nil {
			return fmt.Errorf("console: %w", err)
		}
		name, gzipped := strings.CutSuffix(path.Base(file), ".gz")
		f := static.New(cmp.Or(kinds[path.Ext(name)], "text/plain; charset=utf-8"), body, gzipped)
		if name == "index.html" {
			t.index = f
		} else {
			t.assets[name] = f
		}
		return nil
	})
}

// Routes are the page at the addresses that it has, and its files.
func (t *Transport) Routes() []transports.Route {
	list := []transports.Route{
		{Method: fiber.MethodGet, Path: "/", Public: t.page},
		{Method: fiber.MethodGet, Path: "/assets/:file", Public: t.asset},
	}
	for _, section := range sections {
		list = append(list, transports.Route{Method: fiber.MethodGet, Path: "/" + section + "/*", Public: t.page})
	}
	return list
}

// page answers browsers. Other clients get the answer of a server without a console.
func (t *Transport) page(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderAccept)
	if !browses(c.Get(fiber.HeaderAccept)) {
		return c.Next()
	}
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	return t.index.Send(c, static.Asked)
}

// browses reports whether an Accept header prefers HTML: it names it, and prefers JSON no more.
func browses(accept string) bool {
	html, json := 0.0, 0.0
	for one := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		switch kind {
		case fiber.MIMETextHTML:
			html = q
		case fiber.MIMEApplicationJSON:
			json = q
		}
	}
	return html > 0 && html >= json
}

// asset answers with a file whose name contains its hash.
func (t *Transport) asset(c *fiber.Ctx) error {
	f, ok := t.assets[c.Params("file")]
	if !ok {
		return fiber.ErrNotFound
	}
	return f.Send(c, static.Forever)
}
