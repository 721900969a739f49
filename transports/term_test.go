package transports_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
)

// TestARequestEndsWithItsCredential has one that reads wait while its credential is taken back.
func TestARequestEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	came := make(chan struct{})
	waits := mount(func(r *table) {
		r.Get("/waits", func(c *fiber.Ctx) error {
			came <- struct{}{}
			<-c.UserContext().Done()
			return c.UserContext().Err()
		})
	})
	s := serveWith(t, transports.Config{Accounts: auth.AuthenticatorFunc(func(*http.Request) (auth.Identity, error) {
		return auth.Identity{User: "u", Projects: []string{"p"}, Role: runtime.RoleUser, Credential: "key", Expires: time.Now().Add(time.Hour)}, nil
	})}, transports.StreamConfig{}, waits)
	go func() { // ends with the request's handler
		<-came
		s.Web.EndCredential("key")
	}()
	s.refused(s.do("GET", "/waits", nil), http.StatusUnauthorized, "credential_ended")
}
