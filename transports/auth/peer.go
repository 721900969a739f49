package auth

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
)

// Proxies are the addresses of trusted proxies. Forwarding headers of other peers are ignored.
type Proxies []netip.Prefix

// Has reports whether an address is that of a proxy.
func (p Proxies) Has(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(some netip.Prefix) bool { return some.Contains(addr) })
}

// Peer is the origin of a request, as seen by this server or reported by a trusted proxy.
type Peer struct {
	Address netip.Addr // the client's address; not valid if it has none, as on a Unix socket
	Scheme  string     // of the client's request, http or https
	Request string     // the request's id

	proxied bool   // by one of the Proxies
	host    string // the host in the request to the proxy; empty for none
}

type peerKey struct{}

// PeerOf returns the origin of a request, the zero Peer on a route without Handler.
func PeerOf(c *fiber.Ctx) Peer {
	if p, ok := c.Locals(peerKey{}).(*Peer); ok {
		return *p
	}
	return Peer{}
}

// Handler finds the origin of each request. Secure reports whether one came in over TLS.
func (p Proxies) Handler(secure func(*fiber.Ctx) bool) fiber.Handler {
	return func(c *fiber.Ctx) error {
		peer := &Peer{Scheme: "http"}
		if addr, ok := c.Context().RemoteAddr().(*net.TCPAddr); ok {
			peer.Address, _ = netip.AddrFromSlice(addr.IP)
			peer.Address = peer.Address.Unmap()
		}
		if secure(c) {
			peer.Scheme = "https"
		}
		if peer.Address.IsValid() && p.Has(peer.Address) {
			p.hear(c, peer)
		}
		if !plainID(peer.Request) {
			peer.Request = uuid.NewString()
		}
		c.Locals(peerKey{}, peer)
		return c.Next()
	}
}

// hear reads the forwarding headers of a trusted proxy.
func (p Proxies) hear(c *fiber.Ctx, peer *Peer) {
	peer.proxied = true
	peer.Request = c.Get(fiber.HeaderXRequestID)
	var hop int
	peer.Address, hop = p.client(peer.Address, values(c, fiber.HeaderXForwardedFor))
	if scheme := strings.ToLower(ofHop(values(c, fiber.HeaderXForwardedProto), hop)); scheme == "http" || scheme == "https" {
		peer.Scheme = scheme
	}
	peer.host = ofHop(values(c, fiber.HeaderXForwardedHost), hop)
}

// client is the address that asked the first proxy: the last in said that is not a proxy. The entries before it may be forged. hop is the
// number of entries behind it.
func (p Proxies) client(near netip.Addr, said []string) (_ netip.Addr, hop int) {
	for i, text := range slices.Backward(said) {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			with, err := netip.ParseAddrPort(text)
			if err != nil {
				return near, hop
			}
			addr = with.Addr()
		}
		hop = len(said) - 1 - i
		if near = addr.Unmap().WithZone(""); !p.Has(near) {
			return near, hop
		}
	}
	return near, hop
}

// values are the elements of a header that is a list.
func values(c *fiber.Ctx, name string) (list []string) {
	for _, line := range c.Request().Header.PeekAll(name) {
		for text := range strings.SplitSeq(string(line), ",") {
			list = append(list, strings.TrimSpace(text))
		}
	}
	return list
}

// ofHop is the value that the first trusted proxy has added, with hop values behind it. Proxies may not have added any.
func ofHop(list []string, hop int) string {
	if len(list) == 0 {
		return ""
	}
	return list[max(0, len(list)-1-hop)]
}

// plainID reports whether id may appear in a log.
func plainID(id string) bool {
	for _, b := range []byte(id) {
		if (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') && b != '-' && b != '_' && b != '.' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// AskedURL is the URL of the client's request without a path: its scheme, and a host that the server accepts.
func AskedURL(c *fiber.Ctx) string {
	peer := PeerOf(c)
	if peer.Scheme == "" {
		peer.Scheme = "http"
	}
	if peer.host != "" {
		return peer.Scheme + "://" + peer.host
	}
	return peer.Scheme + "://" + sentHost(c)
}
