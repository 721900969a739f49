// Package static sends files that are part of the program. It is not for those of users: see package attachments.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// File is what is served under one path. Create it with New.
type File struct {
	kind    string // its Content-Type
	etag    string
	gzipped bool
	body    []byte
}

// New returns a file of that Content-Type. The body may be gzipped; who cannot inflate gets it plain all the same.
func New(kind string, body []byte, gzipped bool) File {
	sum := sha256.Sum256(body)
	return File{kind: kind, etag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, gzipped: gzipped, body: body}
}

// How long clients may keep a file.
const (
	Asked   = "no-cache"                            // they ask each time whether it is still the right one
	Forever = "public, max-age=31536000, immutable" // another one will have another path
)

// Send answers with the file, or with 304 when the client has it. kept is Asked or Forever.
func (f File) Send(c *fiber.Ctx, kept string) error {
	c.Set(fiber.HeaderCacheControl, kept)
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
