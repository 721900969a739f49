package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// bouncer vouches for whoever it is told to, and takes it back.
type bouncer struct {
	auth.AuthenticatorFunc
	mu    sync.Mutex // guards the fields below
	asked [][]string
	ended []string
	err   error
}

func (b *bouncer) Valid(context.Context, string) (bool, error) { return true, nil }

func (b *bouncer) Ended(_ context.Context, credentials []string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(credentials)
	b.asked = append(b.asked, credentials)
	return b.ended, b.err
}

func (b *bouncer) set(ended []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.err = ended, err
}

func (b *bouncer) questions() [][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// termOf is the term of a credential.
func termOf(t *testing.T, terms *auth.Terms, credential string, expires time.Time) (term auth.Term) {
	t.Helper()
	return termOfWatched(t, terms, credential, "", expires)
}

func termOfWatched(t *testing.T, terms *auth.Terms, credential, watched string, expires time.Time) (term auth.Term) {
	t.Helper()
	vouch := auth.AuthenticatorFunc(func(*http.Request) (auth.Identity, error) {
		return auth.Identity{
			User: "u", Projects: []string{"p"}, Role: runtime.RoleUser, Credential: credential, Watched: watched, Expires: expires,
		}, nil
	})
	app := fiber.New()
	request := func(*fiber.Ctx) (*http.Request, error) {
		return httptest.NewRequest(http.MethodGet, "/", http.NoBody), nil
	}
	app.Get("/", auth.Callers(vouch, terms, nil, request, slog.New(slog.DiscardHandler)), func(c *fiber.Ctx) error {
		term = auth.TermOf(c)
		return nil
	})
	app.Handler()(new(fasthttp.RequestCtx))
	return term
}

// ending counts how often something was ended, and when.
type ending struct {
	mu sync.Mutex // guards the fields below
	n  int
	at time.Duration
}

// was reports whether it was ended n times, the last time after d.
func (e *ending) was(n int, d time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n == n && e.at == d
}

func (e *ending) end(begun time.Time) func(error) {
	return func(err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if errors.Is(err, auth.ErrEnded) {
			e.n++
			e.at = time.Since(begun)
		}
	}
}

func TestTermsEndAtExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		terms := auth.NewTerms(nil, slog.New(slog.DiscardHandler))
		defer terms.Close()
		term := termOf(t, terms, "c", begun.Add(10*time.Second))
		var one, other, released, never ending
		defer term.Watch(one.end(begun))()
		defer term.Watch(other.end(begun))()
		term.Watch(released.end(begun))()
		defer termOf(t, terms, "c", time.Time{}).Watch(never.end(begun))()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if !one.was(1, 10*time.Second) || !other.was(1, 10*time.Second) || !released.was(0, 0) || !never.was(0, 0) {
			t.Errorf("ended after %v and %v, released %v, without an end %v", one.at, other.at, released.at, never.at)
		}
	})
}

func TestTermsEndWhatIsTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		b := new(bouncer)
		terms := auth.NewTerms(b, slog.New(slog.DiscardHandler))
		defer terms.Close()
		var one, again, other ending
		release := termOf(t, terms, "a", time.Time{}).Watch(one.end(begun))
		defer termOf(t, terms, "a", begun.Add(time.Hour)).Watch(again.end(begun))()
		release2 := termOf(t, terms, "b", time.Time{}).Watch(other.end(begun))

		<-time.After(90 * time.Second)
		synctest.Wait()
		b.set(nil, errors.New("the database is away"))
		<-time.After(time.Minute)
		synctest.Wait()
		if !one.was(0, 0) || !again.was(0, 0) || !other.was(0, 0) {
			t.Error("something has ended while nobody knows whether it should")
		}
		b.set([]string{"a"}, nil)
		<-time.After(time.Minute)
		synctest.Wait()
		if !one.was(1, 3*time.Minute) || !again.was(1, 3*time.Minute) || !other.was(0, 0) {
			t.Errorf("a's ended after %v and %v, b's after %v", one.at, again.at, other.at)
		}
		for i, asked := range b.questions() {
			if want := []string{"a", "b"}; !slices.Equal(asked, want) {
				t.Errorf("question %d was for %v", i, asked)
			}
		}
		release()
		release2()
		n := len(b.questions())
		<-time.After(time.Hour)
		synctest.Wait()
		if len(b.questions()) > n {
			t.Error("it is asked for nothing")
		}
	})
}

// TestTermsEndWithWhatIsWatched takes back what two credentials depend on, and one of them before.
func TestTermsEndWithWhatIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		b := new(bouncer)
		terms := auth.NewTerms(b, slog.New(slog.DiscardHandler))
		defer terms.Close()
		var one, two, other ending
		defer termOfWatched(t, terms, "a", "key", begun.Add(time.Hour)).Watch(one.end(begun))()
		defer termOfWatched(t, terms, "b", "key", begun.Add(time.Hour)).Watch(two.end(begun))()
		defer termOfWatched(t, terms, "key", "another", begun.Add(time.Hour)).Watch(other.end(begun))()
		terms.End("a")
		if !one.was(1, 0) || !two.was(0, 0) {
			t.Errorf("ended %d and %d times", one.n, two.n)
		}
		b.set([]string{"key"}, nil)
		<-time.After(90 * time.Second)
		synctest.Wait()
		if !two.was(1, time.Minute) || !other.was(0, 0) {
			t.Errorf("ended %d times after %v, another %d times", two.n, two.at, other.n)
		}
		if asked := b.questions(); len(asked) != 1 || !slices.Equal(asked[0], []string{"another", "key"}) {
			t.Errorf("it was asked for %q", asked)
		}
	})
}

func TestTermsEndAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := new(bouncer)
		terms := auth.NewTerms(b, slog.New(slog.DiscardHandler))
		defer terms.Close()
		var one, other ending
		defer termOf(t, terms, "a", time.Time{}).Watch(one.end(time.Now()))()
		defer termOf(t, terms, "b", time.Time{}).Watch(other.end(time.Now()))()
		terms.End("a")
		terms.End("nobody's")
		if !one.was(1, 0) || !other.was(0, 0) {
			t.Errorf("ended %d and %d times", one.n, other.n)
		}
	})
}
