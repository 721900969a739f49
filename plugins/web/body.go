package web

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/runtime/agui"
)

// Body is the body of a response without its compression and from its first character. It reads and blocks at the first call of a method.
type Body struct {
	io.Closer
	kind   string // the declared type
	coding string // the last Content-Encoding
	raw    *bufio.Reader
	in     *bufio.Reader // nil before the first use
	err    error         // why there is no in
	left   int64
}

// BodyOf returns the body of res. It fails with agui.ErrTooLong after limit bytes. The caller closes it.
func BodyOf(res *http.Response, limit int64) *Body {
	codings := strings.ToLower(res.Header.Get("Content-Encoding"))
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return &Body{
		Closer: res.Body, kind: kind, coding: strings.TrimSpace(codings[strings.LastIndexByte(codings, ',')+1:]),
		raw: bufio.NewReader(res.Body), left: limit,
	}
}

func (b *Body) Read(p []byte) (int, error) {
	if b.open() != nil {
		return 0, b.err
	}
	if b.left <= 0 {
		return 0, agui.ErrTooLong
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// open reads the beginning of the body.
func (b *Body) open() error {
	if b.in != nil || b.err != nil {
		return b.err
	}
	var in io.Reader
	if in, b.err = b.decompressed(); b.err != nil {
		return b.err
	}
	if b.in = b.raw; in != b.raw {
		b.in = bufio.NewReader(in)
	}
	if bom, _ := b.in.Peek(3); string(bom) == "\ufeff" {
		_, _ = b.in.Discard(3)
	}
	return nil
}

func (b *Body) decompressed() (io.Reader, error) {
	magic, _ := b.raw.Peek(2) // a shorter body is not compressed
	switch {
	case bytes.Equal(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b.raw)
	case b.plain():
		return b.raw, nil
	case b.coding == "deflate" && magic[0] == 0x78:
		return zlib.NewReader(b.raw)
	case b.coding == "deflate":
		return flate.NewReader(b.raw), nil
	case b.coding == "br", b.coding == "zstd":
		return nil, Coding(b.coding)
	}
	return b.raw, nil
}

// plain reports whether the body begins as a text.
func (b *Body) plain() bool {
	begin, _ := b.raw.Peek(min(b.raw.Buffered(), 64))
	for i, r := range string(begin) {
		cut := len(begin)-i < utf8.UTFMax
		if r == utf8.RuneError && !cut || r < ' ' && !strings.ContainsRune("\t\r\n", r) {
			return false
		}
	}
	return true
}

// Coding is a compression that is not read. It is an error.
type Coding string

func (c Coding) Error() string {
	return "the answer is compressed with " + string(c) + ", which is not read"
}

// Declared reports whether the response says that it has this media type.
func (b *Body) Declared(kind string) bool { return b.kind == kind }

// HasEvents reports whether the body is a stream of events: it begins as one, or is declared as one and begins neither as JSON nor as
// a web page.
func (b *Body) HasEvents() bool {
	if b.open() != nil {
		return false
	}
	for {
		first, err := b.in.Peek(1)
		if err != nil || !strings.ContainsRune(" \t\r\n", rune(first[0])) {
			break
		}
		_, _ = b.in.Discard(1)
	}
	begin, _ := b.in.Peek(1)
	switch string(begin) {
	case "{", "[", "<":
		return false
	case ":":
		return true
	case "d", "e", "i", "r":
		begin, _ = b.in.Peek(len("event:"))
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:"} {
		if bytes.HasPrefix(begin, []byte(field)) {
			return true
		}
	}
	return b.kind == "text/event-stream"
}

// maxFault limits the part of an error that is read, in bytes.
const maxFault = 64 << 10

// Fault returns the rest of the body of an error, cut after 64 kB and at the first error of reading. A body that cannot be read is
// replaced by the reason.
func (b *Body) Fault() []byte {
	text, err := io.ReadAll(io.LimitReader(b, maxFault))
	if c, ok := errors.AsType[Coding](err); ok {
		return []byte(c.Error())
	}
	return text
}

// Sentence returns the description in the body of an error, else its JSON, or "". hide removes secrets.
func (b *Body) Sentence(hide func(string) string) string { return problem.Quote(b.Fault(), hide) }
