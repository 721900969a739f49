package apikey_test

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/auth/apikey"
)

// store is keys in memory, and how often it was asked.
type store struct {
	mu    sync.Mutex
	rows  map[string]runtime.APIKey
	asked int
	err   error
}

func (s *store) APIKeys(_ context.Context, ids []string) (list []runtime.APIKey, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, id := range ids {
		if row, ok := s.rows[id]; ok {
			list = append(list, row)
		}
	}
	return list, s.err
}

func (s *store) put(row runtime.APIKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = make(map[string]runtime.APIKey)
	}
	s.rows[row.ID] = row
}

func newKey(tb testing.TB, s *store, expires time.Time) (string, runtime.APIKey) {
	tb.Helper()
	text, row, err := apikey.New("", "alice", []string{"p1", "p2"}, runtime.RoleViewer, expires)
	if err != nil {
		tb.Fatal(err)
	}
	s.put(row)
	return text, row
}

func bearing(key string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

// summed is text with the right checksum in the place of its last characters.
func summed(text string) string {
	text = text[:len(text)-7]
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text)))
	return text + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum))
}

func TestKeysLookLikeKeys(t *testing.T) {
	t.Parallel()
	s := new(store)
	text, row := newKey(t, s, time.Time{})
	if !regexp.MustCompile(`^baton_[a-z2-7]{13}_[a-z2-7]{59}$`).MatchString(text) {
		t.Errorf("a key is %s", text)
	}
	if strings.Contains(fmt.Sprintf("%+v", row), text[20:]) || len(row.Hash) != 64 {
		t.Errorf("the row of %s is %+v", text, row)
	}
	for _, c := range []struct {
		user     string
		projects []string
		role     runtime.Role
	}{{"", []string{"p"}, runtime.RoleUser}, {"u", nil, runtime.RoleUser}, {"u", []string{"p", ""}, runtime.RoleUser}, {"u", []string{"p"}, 0}} {
		if _, _, err := apikey.New("", c.user, c.projects, c.role, time.Time{}); err == nil {
			t.Errorf("%+v has a key", c)
		}
	}
}

func TestKeysSayWhoAsks(t *testing.T) {
	t.Parallel()
	s := new(store)
	keys := apikey.NewKeys(s)
	text, row := newKey(t, s, time.Time{})
	id, err := keys.Authenticate(bearing(text))
	if err != nil || id.User != "alice" || fmt.Sprint(id.Projects) != "[p1 p2]" || id.Role != runtime.RoleViewer || id.Credential != row.ID || !id.Expires.IsZero() || id.Scheme != auth.SchemeAPIKey {
		t.Errorf("got %+v, %v", id, err)
	}
	_, other := newKey(t, s, time.Time{})
	for name, forged := range map[string]string{
		"other secret":       summed(text[:len(text)-20] + strings.Repeat("a", 20)),
		"id of another":      summed(strings.Replace(text, row.ID, other.ID, 1)),
		"nobody's":           summed(strings.Replace(text, row.ID, "aaaaaaaaaaaaa", 1)),
		"wrong checksum":     text[:len(text)-1] + "!",
		"short":              text[:len(text)-1],
		"long":               text + "a",
		"prefix":             "baton_",
		"none":               "x",
		"upper case":         strings.ToUpper(text),
		"no id":              summed("baton__" + strings.Repeat("a", 80)),
		"id of other things": summed("baton_aaaaaa%aaaaaa_" + strings.Repeat("a", 59)),
	} {
		if id, err := keys.Authenticate(bearing(forged)); err == nil || id.User != "" {
			t.Errorf("%s: %+v", name, id)
		} else if len(forged) > 6 && strings.Contains(err.Error(), forged) {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
}

// TestKeysAreRemembered counts questions to the database.
func TestKeysAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(store)
		keys := apikey.NewKeys(s)
		text, row := newKey(t, s, time.Time{})
		absent := summed(strings.Replace(text, row.ID, "aaaaaaaaaaaaa", 1))
		for range 100 {
			if _, err := keys.Authenticate(bearing(text)); err != nil {
				t.Fatal(err)
			}
			if _, err := keys.Authenticate(bearing(absent)); !errors.Is(err, auth.ErrUnknown) {
				t.Fatal(err)
			}
		}
		if s.asked != 2 {
			t.Errorf("200 requests with two keys have asked %d times", s.asked)
		}
		now := time.Now()
		row.RevokedAt = &now
		s.put(row)
		for begun := time.Now(); ; <-time.After(time.Second) {
			if _, err := keys.Authenticate(bearing(text)); err != nil {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatal("a key that was revoked is taken for longer than a minute")
			}
		}
		if ok, err := keys.Valid(t.Context(), row.ID); ok || err != nil {
			t.Errorf("it is valid: %v, %v", ok, err)
		}
		row.ID = "aaaaaaaaaaaaa"
		row.RevokedAt = nil
		s.put(row)
		<-time.After(31 * time.Second)
		if ok, err := keys.Valid(t.Context(), row.ID); !ok || err != nil {
			t.Errorf("a key that is new is not found: %v, %v", ok, err)
		}
	})
}

func TestKeysEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(store)
		keys := apikey.NewKeys(s)
		text, row := newKey(t, s, time.Now().Add(10*time.Second))
		id, err := keys.Authenticate(bearing(text))
		if err != nil || !id.Expires.Equal(*row.ExpiresAt) {
			t.Fatalf("got %+v, %v", id, err)
		}
		_, good := newKey(t, s, time.Time{})
		_, revoked := newKey(t, s, time.Time{})
		now := time.Now()
		revoked.RevokedAt = &now
		s.put(revoked)
		<-time.After(10 * time.Second)
		if _, err := keys.Authenticate(bearing(text)); !errors.Is(err, auth.ErrUnknown) {
			t.Errorf("a key that has expired: %v", err)
		}
		asked := s.asked
		ended, err := keys.Ended(t.Context(), []string{row.ID, good.ID, revoked.ID, "gone"})
		if want := []string{row.ID, revoked.ID, "gone"}; err != nil || fmt.Sprint(ended) != fmt.Sprint(want) || s.asked != asked+1 {
			t.Errorf("ended are %v, %v, after %d questions; want %v after one", ended, err, s.asked-asked, want)
		}
		s.err = errors.New("away")
		if ended, err := keys.Ended(t.Context(), []string{good.ID}); err == nil || len(ended) > 0 {
			t.Errorf("while the database is away there ended %v, %v", ended, err)
		}
		<-time.After(time.Minute)
		other, _ := newKey(t, s, time.Time{})
		refusal, _ := errors.AsType[*runtime.Error](second(keys.Authenticate(bearing(other))))
		if refusal == nil || refusal.Kind != runtime.KindUnavailable {
			t.Errorf("while the database is away a key is refused with %v", refusal)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestStrangersKeysTakeNoRoom asks with many keys that there are not.
func TestStrangersKeysTakeNoRoom(t *testing.T) {
	t.Parallel()
	s := new(store)
	keys := apikey.NewKeys(s)
	text, row := newKey(t, s, time.Time{})
	if _, err := keys.Authenticate(bearing(text)); err != nil {
		t.Fatal(err)
	}
	for i := range 30_000 {
		id := strings.NewReplacer("0", "a", "1", "b", "8", "y", "9", "z").Replace(fmt.Sprintf("%013d", i))
		if _, err := keys.Authenticate(bearing(summed(strings.Replace(text, row.ID, id, 1)))); err == nil {
			t.Fatal("it is taken")
		}
	}
	if known, unknown := keys.Sizes(); known != 1 || unknown > 10_000 {
		t.Errorf("%d keys and %d that are none are remembered", known, unknown)
	}
	asked := s.asked
	if _, err := keys.Authenticate(bearing(text)); err != nil || s.asked != asked {
		t.Errorf("a key was forgotten for those of strangers: %v", err)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	s := new(store)
	keys := apikey.NewKeys(s)
	text, _ := newKey(b, s, time.Time{})
	r := bearing(text)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}
