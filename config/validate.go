package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Validate returns all errors in c, one line for each setting, or nil.
func (c Config) Validate() error { return errors.Join(c.problems()...) }

// problems returns the errors of Validate. Each begins with the name of its setting.
func (c Config) problems() []error {
	errs := []error{c.validListen(), c.validAdminListen(), c.validDatabase()}
	for _, h := range c.Hosts {
		if !hostName(h) {
			errs = append(errs, fmt.Errorf("hosts: want a host name as clients send it, without scheme, port or a dot at its end, with xn--… for other characters, got %q", h))
		}
	}
	for _, o := range c.Origins {
		if !origin(o) {
			errs = append(errs, fmt.Errorf("origins: want a scheme, a host and a port unless it is the scheme's own, as browsers send them, such as https://app.example.com, with xn--… for other characters, got %q", o))
		}
	}
	if _, err := c.TrustedProxies(); err != nil {
		errs = append(errs, fmt.Errorf("trusted_proxies: %w", err))
	}
	if !slices.Contains([]string{"text", "json", "auto"}, c.Log.Format) {
		errs = append(errs, fmt.Errorf("log.format: want text, json or auto, got %q", c.Log.Format))
	}
	errs = append(errs, c.validCluster()...)
	errs = append(errs, c.TLS.problems()...)
	errs = append(errs, c.Attachments.problems()...)
	errs = append(errs, c.Auth.problems()...)
	errs = append(errs, c.validNumbers()...)
	if _, err := c.Retention.OfProjects(); err != nil {
		errs = append(errs, err)
	}
	if len(c.Name) > mostName {
		errs = append(errs, fmt.Errorf("name: want at most %d characters, got %d", mostName, len(c.Name)))
	}
	if c.Limits.Input > mostInput {
		errs = append(errs, fmt.Errorf("limits.input: want at most %v, got %v", mostInput, c.Limits.Input))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

var hostNames = regexp.MustCompile(`^(?i)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// hostName reports whether a Host header may have this name.
func hostName(name string) bool {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Zone() == "" && addr.String() == strings.ToLower(name)
	}
	return hostNames.MatchString(name)
}

// origin reports whether an Origin header may have this value.
func origin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || !strings.EqualFold(text, u.Scheme+"://"+u.Host) || !hostName(u.Hostname()) {
		return false
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		return err == nil && strconv.FormatUint(n, 10) == port && n > 0 && defaultPorts[u.Scheme] != port
	}
	return u.Host == u.Hostname() || u.Host == "["+u.Hostname()+"]"
}

// defaultPorts are the ports that browsers leave out of an origin.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// mostName is the length of the longest host name.
const mostName = 253

// mostInput is the memory for the requests of all clients, which must have room for one.
const mostInput = 96 * mebibyte

func (c Config) validListen() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("listen: want an address and a port such as 127.0.0.1:8080, got %q", c.Listen)
	}
	without, cure := "over plain HTTP", ", serve HTTPS with tls.cert_file and tls.key_file (--tls-cert, --tls-key)"
	switch {
	case c.Auth.Mode == AuthNone && c.TLS.On():
		without, cure = "without authentication", ", set auth.mode (BATON_AUTH)"
	case c.Auth.Mode == AuthNone:
		without, cure = "over plain HTTP", ""
	}
	addr, err := netip.ParseAddr(host)
	if c.Insecure || c.TLS.On() && c.Auth.Mode != AuthNone || host == "localhost" || err == nil && addr.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("listen: other machines can reach %s %s; listen on 127.0.0.1 behind a proxy%s, or allow it with insecure: true (--insecure, BATON_INSECURE=true)", c.Listen, without, cure)
}

// TrustedProxies returns Proxies as networks.
func (c Config) TrustedProxies() (list []netip.Prefix, err error) {
	for _, text := range c.Proxies {
		p, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); bad == nil {
			p, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		if err != nil || p.Bits() == 0 || p.Addr().Is4In6() {
			return nil, fmt.Errorf("want an address or a network such as 10.0.0.0/8, and not the whole Internet, got %q", text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

func (t TLS) problems() []error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return []error{errors.New("tls: set both cert_file and key_file, or neither")}
	}
	return nil
}

// validAdminListen accepts any address, also one that other machines can reach.
// The roles of servers.
const (
	RoleAll     = "all"
	RoleGateway = "gateway"
	RoleWorker  = "worker"
)

var label = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// validCluster checks the role and the labels of the server.
func (c Config) validCluster() (errs []error) {
	if !slices.Contains([]string{RoleAll, RoleGateway, RoleWorker}, c.Role) {
		errs = append(errs, fmt.Errorf("role: want all, gateway or worker, got %q", c.Role))
	} else if c.Role != RoleAll && strings.HasPrefix(c.Database, "sqlite:") {
		errs = append(errs, errors.New("role: the only server of a SQLite file does everything; set database to a postgres:// URL"))
	}
	if maskedNATS(c.NATS) == hidden {
		errs = append(errs, errors.New("nats: want URLs such as nats://host:4222 or tls://user:password@host:4222, with commas between them and special characters percent-encoded"))
	} else if c.NATS != "" && strings.HasPrefix(c.Database, "sqlite:") {
		errs = append(errs, errors.New("nats: a SQLite file has one server, which needs no hints; remove nats, or set database to a postgres:// URL"))
	}
	for _, l := range c.Labels {
		if !label.MatchString(l) {
			errs = append(errs, fmt.Errorf("labels: want letters, digits, dots, dashes and underscores, at most 64, got %q", l))
		}
	}
	if len(c.Labels) > 20 {
		errs = append(errs, fmt.Errorf("labels: want at most 20, got %d", len(c.Labels)))
	}
	return errs
}

func (c Config) validAdminListen() error {
	if c.AdminListen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.AdminListen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("admin_listen: want an address and a port such as 127.0.0.1:9090, got %q", c.AdminListen)
	case c.AdminListen == c.Listen && port != "0":
		return fmt.Errorf("admin_listen: %s is also the address of listen; choose another one", c.AdminListen)
	}
	return nil
}

// severalHosts matches the URL of a PostgreSQL database on one of several hosts, as libpq accepts it.
var severalHosts = regexp.MustCompile(`^(postgres(?:ql)?://(?:[^/?#]*@)?)([^/?#@]*,[^/?#@]*)((?:/[^?#]*)?)(?:\?([^#]*))?$`)

// hostsInQuery moves several hosts of a database's URL into its query, where the driver reads them: a URL has one host.
func hostsInQuery(database string) string {
	parts := severalHosts.FindStringSubmatch(database)
	if parts == nil {
		return database
	}
	var hosts, ports []string
	for text := range strings.SplitSeq(parts[2], ",") {
		host, port, err := net.SplitHostPort(text)
		if err != nil {
			host, port = strings.Trim(text, "[]"), "5432"
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	query := "host=" + url.QueryEscape(strings.Join(hosts, ",")) + "&port=" + url.QueryEscape(strings.Join(ports, ","))
	if parts[4] != "" {
		query += "&" + parts[4]
	}
	return parts[1] + parts[3] + "?" + query
}

// validDatabase never quotes the setting, because a malformed one may contain a password.
func (c Config) validDatabase() error {
	if file, ok := strings.CutPrefix(c.Database, "sqlite:"); ok && file != "" {
		return nil
	}
	if masked(c.Database) == hidden {
		return errors.New("database: want sqlite:<file> or a URL such as postgres://user:password@host:5432/name, with special characters percent-encoded")
	}
	return nil
}

// validNumbers checks that every count, size and duration is positive, or 0 where 0 has a meaning.
func (c Config) validNumbers() (errs []error) {
	for _, s := range settings() {
		v := reflect.ValueOf(c).FieldByIndex(s.index)
		if !v.CanInt() || s.key == "log.level" {
			continue
		}
		section, name, _ := strings.Cut(s.key, ".")
		switch runs := strings.HasPrefix(name, "runs"); {
		case section == "retention":
			if v.Int() < 0 || v.Int() > maxDays {
				errs = append(errs, fmt.Errorf("%s: want a number of days up to %d, or 0 to keep forever, got %v", s.key, maxDays, v))
			}
		case section == "limits" && runs:
			if v.Int() < 0 {
				errs = append(errs, fmt.Errorf("%s: want a positive number, or 0 for the default, got %v", s.key, v))
			}
		case section == "limits" && name != "queue" && name != "input":
			if v.Int() < 0 {
				errs = append(errs, fmt.Errorf("%s: want a positive number, or 0 for no limit, got %v", s.key, v))
			}
		case v.Int() <= 0:
			errs = append(errs, fmt.Errorf("%s: want more than 0, got %v", s.key, v))
		}
	}
	return errs
}

func (a Attachments) problems() (errs []error) {
	if a.Directory != "" && a.URL != "" {
		errs = append(errs, errors.New("attachments.url: want a directory or a bucket, not both"))
	}
	if u, err := url.Parse(a.URL); a.URL != "" && (err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil) {
		errs = append(errs, errors.New("attachments.url: want a bucket such as s3://name?region=eu-central-1, and credentials in the environment"))
	}
	if u, err := url.Parse(a.BaseURL); a.BaseURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil) {
		errs = append(errs, fmt.Errorf("attachments.base_url: want a URL such as https://app.example.com, got %q", a.BaseURL))
	}
	for _, t := range a.Types {
		if _, err := path.Match(t, ""); err != nil || t != "*" && strings.Count(t, "/") != 1 || strings.ToLower(t) != t || strings.ContainsAny(t, "; ") {
			errs = append(errs, fmt.Errorf("attachments.types: want a media type such as image/png or image/*, got %q", t))
		}
	}
	if a.Size > a.Bytes {
		errs = append(errs, fmt.Errorf("attachments.size: one file may have %v, more than attachments.bytes allows for all files of a user, %v", a.Size, a.Bytes))
	}
	return errs
}
