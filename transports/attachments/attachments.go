// Package attachments serves users' files over HTTP: uploads, URLs of stored files, and the content of those that browsers cannot
// fetch elsewhere. Package attach decides the rights of users.
package attachments

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's attachments.
type Transport struct {
	Uploads *runtime.Uploads
	Size    int64 // of a file; the form around it is not counted

	// BaseURL is where browsers reach this server, such as https://app.example.com. Empty means where the request went.
	BaseURL string

	// PerUser limits a user's concurrent uploads; 0 for the total limit only. Concurrent downloads through signed URLs may be four
	// times as many.
	PerUser int
}

// form is how many bytes a form may have around its file.
const form = 64 << 10

// The limits of concurrent transfers, lower for processes with few descriptors. Each upload may need a bucket's
// buffer.
const (
	mostIn  = 32
	mostOut = 256
)

// Routes are the routes of uploads and of the URLs of files.
func (t Transport) Routes() []transports.Route {
	in := quota.New(quota.Limits{Total: int64(stream.Files(32, mostIn)), PerUser: int64(t.PerUser)})
	out := quota.New(quota.Limits{Total: int64(stream.Files(16, mostOut)), PerUser: int64(4 * t.PerUser)})
	upload := transports.Route{Method: fiber.MethodPost, Path: "/api/v1/agent/attachments", Raw: t.Size + form}
	upload.Known = func(c *fiber.Ctx, who runtime.Caller) error {
		release, err := reserve(c.UserContext(), in, quota.OwnerOf(who.Project(), who.User()))
		if err != nil {
			return err
		}
		defer release()
		return t.upload(c, who, upload.Body(c))
	}
	return []transports.Route{
		upload,
		{Method: fiber.MethodGet, Path: "/api/v1/agent/attachments/signed-url", Known: t.signedURL},
		{Method: fiber.MethodGet, Path: "/api/projects/:projectId/agent-runs/:runId/results/:callId", Known: func(c *fiber.Ctx, who runtime.Caller) error {
			return t.result(c, who, out)
		}},
		{Method: fiber.MethodGet, Path: attach.RawPath, Public: func(c *fiber.Ctx) error { return t.raw(c, out) }}, // the signature contains the owner
	}
}

// Uploaded is an uploaded file. Messages refer to it in `metadata.attachments`.
type Uploaded struct {
	Bucket   string `json:"bucket"`   // The project.
	Path     string `json:"path"`     // Path of the file in the project.
	MimeType string `json:"mimeType"` // Media type, detected from the content.
	Size     int64  `json:"size"`     // Size in bytes.
	Filename string `json:"filename"` // Name of the file, as uploaded.
}

func invalid(code, detail string) error {
	return &runtime.Error{Kind: runtime.KindInvalid, Code: code, Detail: detail}
}

var (
	errForm  = &runtime.Error{Kind: runtime.KindUnsupported, Code: "unsupported_media_type", Detail: "An attachment must come as multipart/form-data"}
	errFiles = invalid("one_file", "The form must have one file")

	errAround = &runtime.Error{
		Kind: runtime.KindTooLarge, Code: "form_too_large", Detail: "What a form has around its file may be 65536 bytes",
	}
)

// upload answers POST: it stores the one file of a form while the form arrives.
func (t Transport) upload(c *fiber.Ctx, who runtime.Caller, body io.Reader) error {
	if enc := c.Get(fiber.HeaderContentEncoding); enc != "" && !strings.EqualFold(enc, "identity") {
		return &runtime.Error{Kind: runtime.KindUnsupported, Code: "unsupported_media_type", Detail: "A request's body must not be compressed"}
	}
	kind, params, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if err != nil || kind != fiber.MIMEMultipartForm || params["boundary"] == "" {
		return errForm
	}
	parts := &parts{from: &kept{r: body, left: form}}
	parts.Reader = multipart.NewReader(parts.from, params["boundary"])
	file, err := parts.file()
	if errors.Is(err, io.EOF) {
		return errFiles
	}
	if err != nil {
		return err
	}
	a, err := t.Uploads.Add(c.UserContext(), who, runtime.Upload{
		Filename: file.FileName(), Type: file.Header.Get(fiber.HeaderContentType),
		Length: int64(c.Request().Header.ContentLength()), Body: &only{parts: parts, part: file},
	})
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusCreated).JSON(Uploaded{
		Bucket: a.Project, Path: a.Path, MimeType: a.Type, Size: a.Size, Filename: a.Filename,
	})
}

// kept is a body that remembers its error. It limits the bytes around the form's file, as part headers are read into memory
// that the budget does not count.
type kept struct {
	r    io.Reader
	err  error
	left int  // bytes left around the file
	file bool // the file is being read
}

func (k *kept) Read(b []byte) (int, error) {
	if !k.file {
		if k.left <= 0 {
			k.err = errAround
			return 0, k.err
		}
		b = b[:min(len(b), k.left)]
	}
	n, err := k.r.Read(b)
	if !k.file {
		k.left -= n
	}
	if err != nil && !errors.Is(err, io.EOF) {
		k.err = err
	}
	return n, err
}

// parts are the parts of a form.
type parts struct {
	*multipart.Reader
	from *kept
}

// file returns the next part that is a file. Fields beside it are passed over.
func (p *parts) file() (*multipart.Part, error) {
	p.from.file = false
	for {
		part, err := p.NextRawPart()
		if err != nil {
			return nil, p.broken(err)
		}
		if part.FileName() != "" {
			p.from.file = true
			return part, nil
		}
	}
}

// broken is the error for an unreadable form.
func (p *parts) broken(err error) error {
	switch {
	case p.from.err != nil:
		return p.from.err
	case err == io.EOF: //nolint:errorlint // that is how a form ends; one that breaks off wraps it
		return err
	}
	return invalid("invalid_form", "The form is broken off or not valid")
}

// only is a part that must be the form's last file: it reads the rest of the form before it ends.
type only struct {
	parts *parts
	part  io.Reader
	end   error
}

func (o *only) Read(b []byte) (int, error) {
	if o.end != nil {
		return 0, o.end
	}
	n, err := o.part.Read(b)
	if err == nil {
		return n, nil
	}
	if err != io.EOF { //nolint:errorlint // as above
		o.end = o.parts.broken(err)
		return n, o.end
	}
	if _, err = o.parts.file(); err == nil {
		err = errFiles
	}
	o.end = err
	return n, o.end
}

// Signed is a temporary URL of an attachment.
type Signed struct {
	Bucket string `json:"bucket"`
	Path   string `json:"path"`
	URL    string `json:"url"` // Anybody with this URL can download the file without a credential until the URL expires.
}

// signedURL answers GET signed-url.
func (t Transport) signedURL(c *fiber.Ctx, who runtime.Caller) error {
	bucket, path := c.Query("bucket"), c.Query("path")
	if bucket == "" || path == "" {
		return invalid("invalid_request", "Give bucket and path")
	}
	url, err := t.Uploads.URL(c.UserContext(), who, bucket, path)
	if err != nil {
		return err
	}
	if strings.HasPrefix(url, "/") {
		base := strings.TrimSuffix(t.BaseURL, "/")
		if base == "" {
			base = auth.AskedURL(c)
		}
		url = base + url
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	return c.JSON(Signed{bucket, path, url})
}

// raw answers GET raw without authentication, as the signature authorizes it. Browsers must not execute users' files: all but
// four image types are downloads without an origin.
func (t Transport) raw(c *fiber.Ctx, out *quota.Pool) error {
	a, body, err := t.Uploads.OpenSigned(c.UserContext(), runtime.SignedRequest{
		Method: c.Method(), Bucket: c.Query("bucket"), Path: c.Query("path"),
		Expires: c.Query("expires"), Signature: c.Query("signature"),
	})
	if err != nil {
		return err
	}
	return send(c, out, &a, body)
}

// result answers GET of a tool's result that a file has.
func (t Transport) result(c *fiber.Ctx, who runtime.Caller, out *quota.Pool) error {
	who, err := transports.InStead(who, c.Query("user"), runtime.RoleViewer)
	if err != nil {
		return err
	}
	a, body, err := t.Uploads.OpenResult(c.UserContext(), who, wire.Unescape(c.Params("runId")), wire.Unescape(c.Params("callId")))
	if err != nil {
		return err
	}
	return send(c, out, &a, body)
}

// send answers c with a file.
func send(c *fiber.Ctx, out *quota.Pool, a *runtime.Attachment, body io.ReadCloser) error {
	release, err := reserve(c.UserContext(), out, quota.OwnerOf(a.Project, a.User))
	if err != nil {
		_ = body.Close()
		return err
	}
	kind := a.Type
	if strings.HasPrefix(kind, "text/") {
		kind += "; charset=utf-8"
	}
	c.Set(fiber.HeaderContentType, kind)
	c.Set(fiber.HeaderContentDisposition, attach.Disposition(a))
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderCacheControl, "private, max-age=300")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return c.SendStream(reserved{body, release}, int(a.Size))
}
