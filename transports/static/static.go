// Package static serves files of the program. Package attachments serves users' files.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// File is the content of one path. Create it with New.
type File struct {
	kind    string // its Content-Type
	etag    string
	gzipped bool
	body    []byte
	plain   func() ([]byte, error) // the body, inflated once; nil when it is not gzipped
}

// New returns a file of that Content-Type. The body may be gzipped; clients without gzip get it inflated.
func New(kind string, body []byte, gzipped bool) File {
	sum := sha256.Sum256(body)
	f := File{kind: kind, etag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, gzipped: gzipped, body: body}
	if gzipped {
		f.plain = sync.OnceValues(func() ([]byte, error) { return inflated(body) })
	}
	return f
}

func inflated(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// How long clients may keep a file.
const (
	Asked   = "no-cache"                            // clients revalidate at each use
	Forever = "public, max-age=31536000, immutable" // another one will have another path
)

// Send answers with the file, or with 304 if the client has it. kept is Asked or Forever.
func (f File) Send(c *fiber.Ctx, kept string) error {
	c.Set(fiber.HeaderCacheControl, kept)
	c.Set(fiber.HeaderETag, f.etag)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	if known := c.Get(fiber.HeaderIfNoneMatch); known == "*" || slices.Contains(strings.Split(known, ", "), f.etag) {
		return c.SendStatus(fiber.StatusNotModified)
	}
	c.Set(fiber.HeaderContentType, f.kind)
	if !f.gzipped {
		return share(c, f.body)
	}
	c.Vary(fiber.HeaderAcceptEncoding)
	if c.Request().Header.HasAcceptEncoding("gzip") {
		c.Set(fiber.HeaderContentEncoding, "gzip")
		return share(c, f.body)
	}
	plain, err := f.plain()
	if err != nil {
		return err
	}
	return share(c, plain)
}

// share answers with bytes that all answers share.
func share(c *fiber.Ctx, body []byte) error {
	c.Context().SetUserValue(sharedKey{}, true)
	c.Context().Response.SetBodyRaw(body)
	return nil
}

type sharedKey struct{}

// Shared reports whether an answer needs no memory of its own.
func Shared(ctx *fasthttp.RequestCtx) bool { return ctx.UserValue(sharedKey{}) != nil }
