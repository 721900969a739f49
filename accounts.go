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
	return text, row.ID, s.db.PutAPIKey(ctx, &row, nil)
}

// RevokeAPIKey revokes a key and ends its streams on this server immediately. It fails with runtime.ErrNotFound when the key does
// not exist or was revoked before.
func (s *Server) RevokeAPIKey(ctx context.Context, id string) error {
	if err := s.db.RevokeAPIKey(ctx, id, time.Now(), nil); err != nil {
		return err
	}
	s.revoked(id)
	return nil
}

// revoked ends the streams of a key on this server.
func (s *Server) revoked(id string) {
	s.keys.Forget(id)
	s.EndCredential(id)
}

// ResetSecrets invalidates all tickets, signed attachment URLs and list cursors: on this server immediately, on other servers of
// the database within a minute. Open streams stay open.
func (s *Server) ResetSecrets(ctx context.Context) error { return s.rt.ResetSecrets(ctx) }

// EndCredential ends immediately the streams of a credential, named as in Identity.Credential. A Watcher need not call it, because
// the server asks it every minute.
func (s *Server) EndCredential(id string) { s.web.EndCredential(id) }
