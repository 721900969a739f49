package auth

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Browser defines which Host and Origin headers a server accepts. Browsers also reach servers on loopback: any page may send
// requests to this machine, and its Host or Origin shows it. A request without an Origin is not from a page's script.
type Browser struct {
	Listen  string   // the address served on, host:port
	Hosts   []string // host names admitted beside it, localhost and loopback literals
	Origins []string // web origins admitted beside the server's own, such as https://app.example.com

	Credentials bool // pages of Origins may have their browsers send cookies and the like
}

// The refusals of Handler.
var (
	ErrHost   = fiber.NewError(fiber.StatusMisdirectedRequest, "This server does not answer to that Host; name it in the setting hosts")
	errTarget = fiber.NewError(fiber.StatusBadRequest, "A request's target must be a path, or an URL of its Host")
	ErrOrigin = fiber.NewError(fiber.StatusForbidden, "Web pages of this Origin are not admitted; name it in the setting origins, or in trusted_proxies the proxy that ends its TLS")
)

// The CORS answers for admitted origins.
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsExposes = "Retry-After, X-Request-Id, Mcp-Session-Id"
	corsMaxAge  = "600"
	corsAsked   = 2 << 10 // bytes of a list of headers
)

// headerNames matches a list of header names. Nothing else of a request is repeated in an answer.
var headerNames = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+(?:[ \t]*,[ \t]*[-!#$%&'*+.^_`|~0-9A-Za-z]+)*$")

// Handler refuses requests with a foreign Host (421) or Origin (403), and those with an ambiguous target (400). It answers CORS
// preflights of admitted origins, and lets their pages send any header and read the answers.
func (b Browser) Handler() fiber.Handler {
	listen, _, _ := net.SplitHostPort(b.Listen)
	hosts := make([]string, 0, len(b.Hosts)+2)
	for _, h := range append(slices.Clone(b.Hosts), listen, "localhost") {
		if h != "" {
			hosts = append(hosts, strings.ToLower(h))
		}
	}
	return func(c *fiber.Ctx) error {
		if !plainTarget(c) {
			return errTarget
		}
		if !hostAdmitted(c, hosts) {
			return ErrHost
		}
		if peer, ok := c.Locals(peerKey{}).(*Peer); ok && peer.host != "" && !slices.Contains(hosts, hostname(peer.host)) {
			peer.host = "" // another's name may resolve to the proxy's address
		}
		origin := strings.ToLower(c.Get(fiber.HeaderOrigin))
		if origin == "" {
			return c.Next()
		}
		if slices.ContainsFunc(b.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
			c.Vary(fiber.HeaderOrigin)
			c.Set(fiber.HeaderAccessControlAllowOrigin, c.Get(fiber.HeaderOrigin))
			c.Set(fiber.HeaderAccessControlExposeHeaders, corsExposes)
			if b.Credentials {
				c.Set(fiber.HeaderAccessControlAllowCredentials, "true")
			}
		} else if !ownOrigin(c, origin) {
			return ErrOrigin
		}
		if c.Method() == fiber.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != "" {
			c.Set(fiber.HeaderAccessControlAllowMethods, corsMethods)
			c.Vary(fiber.HeaderAccessControlRequestHeaders)
			if asked := c.Get(fiber.HeaderAccessControlRequestHeaders); len(asked) <= corsAsked && headerNames.MatchString(asked) {
				c.Set(fiber.HeaderAccessControlAllowHeaders, asked)
			}
			c.Set(fiber.HeaderAccessControlMaxAge, corsMaxAge)
			return c.SendStatus(fiber.StatusNoContent)
		}
		return c.Next()
	}
}

// plainTarget reports whether a request's target is a path, or a URL of the host in the Host header. From other targets, such as
// //host/path?x=://, fasthttp may derive another host or path.
func plainTarget(c *fiber.Ctx) bool {
	target := string(c.Request().Header.RequestURI())
	if strings.HasPrefix(target, "/") {
		return !strings.HasPrefix(target, "//")
	}
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest != "" && strings.EqualFold(rest, sentHost(c))
}

// sentHost is the Host header as it was sent: fasthttp's host may come from the target.
func sentHost(c *fiber.Ctx) string { return string(c.Request().Header.Host()) }

// hostAdmitted reports whether the request's Host is a name of this server. Literals of loopback and of the
// address the connection came in on are: another site's name cannot resolve to a literal.
func hostAdmitted(c *fiber.Ctx, hosts []string) bool {
	sent := sentHost(c)
	if sent == "" {
		return !c.Request().Header.IsHTTP11() // HTTP/1.0 had no Host, and browsers do not use it
	}
	host := hostname(sent)
	if addr, err := netip.ParseAddr(host); err == nil {
		local, _ := netip.AddrFromSlice(c.Context().LocalIP())
		if addr = addr.Unmap(); addr.IsLoopback() || addr == local.Unmap() {
			return true
		}
	}
	return host != "" && slices.Contains(hosts, host)
}

// hostname is a Host header without port and brackets, in lower case, and empty if invalid, such as name:1@other, which a URL
// resolves to other.
func hostname(host string) string {
	u, err := url.Parse("//" + host)
	if err != nil || u.Host != host {
		return ""
	}
	if name := u.Hostname(); !strings.HasPrefix(host, "[") || strings.Contains(name, ":") {
		return strings.ToLower(name)
	}
	return "" // brackets are an address's
}

// ownOrigin reports whether origin is the scheme, host and port of this request. The scheme's default port may be omitted.
func ownOrigin(c *fiber.Ctx, origin string) bool {
	scheme, host, _ := strings.Cut(origin, "://")
	peer := PeerOf(c)
	if scheme != peer.Scheme {
		return false
	}
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	host = strings.TrimSuffix(host, port)
	return slices.ContainsFunc([]string{sentHost(c), peer.host}, func(own string) bool {
		return own != "" && strings.EqualFold(host, strings.TrimSuffix(own, port))
	})
}
