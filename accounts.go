package baton

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth/apikey"
)

// CreateAPIKey makes an API key for a user in projects; requests that name none use the first. Text is the key, which the server
// does not store; id is for RevokeAPIKey. A zero expires means that the key does not expire.
func (s *Server) CreateAPIKey(ctx context.Context, user string, projects []string, role runtime.Role, expires time.Time) (text, id string, err error) {
	text, row, err := apikey.New("", user, projects, role, expires)
	if err != nil {
		return "", "", err
	}
	return text, row.ID, s.db.Accounts.PutAPIKey(ctx, &row, nil)
}

// RevokeAPIKey revokes a key and ends its streams: on this server immediately, on other servers of the database as EndCredential does.
// It fails with runtime.ErrNotFound when the key does not exist or was revoked before.
func (s *Server) RevokeAPIKey(ctx context.Context, id string) error {
	if err := s.db.Accounts.RevokeAPIKey(ctx, id, time.Now(), nil); err != nil {
		return err
	}
	s.revoked(id)
	return nil
}

// revoked ends the use of a key.
func (s *Server) revoked(id string) {
	s.keys.Forget(id)
	s.EndCredential(id)
}

// ResetSecrets invalidates all tickets, signed attachment URLs and list cursors: on this server immediately, on other servers of
// the database within a minute. Open streams stay open.
func (s *Server) ResetSecrets(ctx context.Context) error { return s.rt.Secrets.Reset(ctx) }

// EndCredential ends immediately the streams of a credential, named as in Identity.Credential. Other servers of the database ask their
// Watcher about it at once, unless the hint to them is lost. A Watcher need not call it, because each server asks it every minute.
func (s *Server) EndCredential(id string) {
	s.web.EndCredential(id)
	s.rt.Fleet().HintRevoked(id)
}

// checkRevoked reads the credentials again that another server may have revoked, and ends the streams of those that were.
func (s *Server) checkRevoked(ctx context.Context, were func(credential string) bool) {
	s.keys.Recheck(were)
	s.web.CheckCredentials(ctx, were)
}
