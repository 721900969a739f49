package cmd

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/certs"
)

// serverURL returns the URL of a server that has these settings and listens on address.
func serverURL(cfg *config.Config, address string) string {
	if cfg.TLS.On() {
		return "https://" + transports.Dialable(address)
	}
	return "http://" + transports.Dialable(address)
}

// serverClient returns a client for a server that has these settings. It trusts the system's certificate authorities and the
// certificate in the settings, which seldom names the address and may be self-signed.
func serverClient(cfg *config.Config) *http.Client {
	if !cfg.TLS.On() {
		return http.DefaultClient
	}
	files := cfg.TLS
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf := state.PeerCertificates[0]
			if pair, err := certs.Pair(files.CertFile, files.KeyFile); err == nil && bytes.Equal(pair.Certificate[0], leaf.Raw) {
				return nil
			}
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := leaf.Verify(x509.VerifyOptions{DNSName: state.ServerName, Intermediates: between})
			return err
		},
	}
	return &http.Client{Transport: transport}
}
