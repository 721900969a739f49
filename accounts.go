package baton

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth/apikey"
)

// CreateAPIKey makes a key with which Config.APIKeys knows the user, in projects of which the first is meant where a
// request names none. Its text is nowhere else; the id is for RevokeAPIKey. Expires is zero for a key that does not.
func (s *Server) CreateAPIKey(ctx context.Context, user string, projects []string, role runtime.Role, expires time.Time) (text, id string, err error) {
	text, row, err := apikey.New("", user, projects, role, expires)
	if err != nil {
		return "", "", err
	}
	return text, row.ID, s.db.PutAPIKey(ctx, &row, nil)
}

// RevokeAPIKey revokes a key, and ends at once what it has opened here. It fails with runtime.ErrNotFound when there is no
// such key, or it was revoked before.
func (s *Server) RevokeAPIKey(ctx context.Context, id string) error {
	if err := s.db.RevokeAPIKey(ctx, id, time.Now(), nil); err != nil {
		return err
	}
	s.revoked(id)
	return nil
}

// revoked ends at once what a key has opened here.
func (s *Server) revoked(id string) {
	s.keys.Forget(id)
	s.EndCredential(id)
}

// ResetSecrets invalidates all tickets, signed attachment URLs and list cursors: on this server at once, on other servers of the
// database within a minute. Open streams stay open.
func (s *Server) ResetSecrets(ctx context.Context) error { return s.rt.ResetSecrets(ctx) }

// EndCredential ends at once the streams that a credential, by its Identity's name for it, has opened. A Watcher need not
// call it: it is asked each minute.
func (s *Server) EndCredential(id string) { s.web.EndCredential(id) }
