// Package admin shows the state of the process to its operators: metrics, profiles, health. It has its own listener, without
// accounts: every client that reaches the listener has access.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Config configures a Server. All fields but Hosts are required.
type Config struct {
	Metrics http.Handler
	Ready   func(ctx context.Context) error // why the server cannot serve now
	Unwell  func() []string                 // plugins that are not well, which does not make the server unready
	Hosts   []string                        // Host names that are answered beside localhost and addresses
	Log     *slog.Logger
}

// Server answers on the listener. Create it with New, call Serve, and Close at the end.
type Server struct{ http http.Server }

// New returns a server.
func New(cfg Config) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", cfg.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := cfg.Ready(r.Context()); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, strings.Join(append([]string{"ready"}, cfg.Unwell()...), "\n"))
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return &Server{http.Server{
		Handler:           known(mux, cfg.Hosts),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}

// known admits only requests for localhost, an address or one of hosts: a page whose name was rebound to this machine could
// otherwise read the answers.
func known(next http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		_, err := netip.ParseAddr(host)
		if err != nil && !strings.EqualFold(host, "localhost") && !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
			say(w, http.StatusMisdirectedRequest, "This listener does not answer to that Host; name it in the setting hosts")
			return
		}
		if foreign(r) {
			say(w, http.StatusForbidden, "This listener answers no pages of others")
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// foreign reports whether another site's page sends the request. Such a page cannot read the answer, but could start profiles and
// garbage collections without end. A followed link is not foreign.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, "http://"+r.Host) {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") { // some browsers do not send it
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// Listen opens an address; without a host it is one that no other machine reaches.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("admin listener: %w", err)
	}
	return ln, nil
}

// Serve answers requests on ln until Close. It closes ln and returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends the listener and all that is answered on it.
func (s *Server) Close() error { return s.http.Close() }
