package storage_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		later := now.Add(time.Hour)
		want := []data.APIKey{
			{ID: "a", Hash: "h1", User: "ü", Projects: []string{"p1", "p,2"}, Role: "user", CreatedAt: now},
			{ID: "b", Hash: "h2", User: "u", Projects: []string{"p1"}, Role: "admin", CreatedAt: now, ExpiresAt: &later},
		}
		for i := range want {
			must(t, db.Accounts.PutAPIKey(t.Context(), &want[i], nil))
		}
		if err := db.Accounts.PutAPIKey(t.Context(), &want[0], nil); err == nil {
			t.Error("an ID was given twice")
		}
		listed := func() []data.APIKey {
			t.Helper()
			list, err := db.Accounts.APIKeysAfter(t.Context(), "", 10)
			must(t, err)
			return list
		}
		if diff := cmp.Diff(want, listed()); diff != "" {
			t.Error(diff)
		}
		if got, err := db.Accounts.APIKeys(t.Context(), []string{"nobody's", "b"}); err != nil || !cmp.Equal(got, want[1:]) {
			t.Errorf("got %v, %v", got, err)
		}
		if got, err := db.Accounts.APIKeysAfter(t.Context(), "a", 1); err != nil || !cmp.Equal(got, want[1:]) {
			t.Errorf("got %v, %v", got, err)
		}
		page, err := db.Accounts.ProjectAPIKeys(t.Context(), "p1", 0, 1)
		if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != "b" || !page.More || page.Total != 2 {
			t.Errorf("the latest key of p1: %+v, %v", page, err)
		}
		page, err = db.Accounts.ProjectAPIKeys(t.Context(), "p1", page.Rows[0].Key, 1)
		if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != "a" || page.More {
			t.Errorf("the one before it: %+v, %v", page, err)
		}
		for project, want := range map[string]int{"p,2": 1, "p": 0, "": 0} {
			if page, err := db.Accounts.ProjectAPIKeys(t.Context(), project, 0, 10); err != nil || len(page.Rows) != want || page.Total != want {
				t.Errorf("keys of %q: %+v, %v", project, page, err)
			}
		}
		must(t, db.Accounts.RevokeAPIKey(t.Context(), "b", later, nil))
		want[1].RevokedAt = &later
		for _, id := range []string{"b", "c"} {
			if err := db.Accounts.RevokeAPIKey(t.Context(), id, now, nil); !errors.Is(err, data.ErrNotFound) {
				t.Errorf("%s is revoked: %v", id, err)
			}
		}
		if diff := cmp.Diff(want, listed()); diff != "" {
			t.Error(diff)
		}
		if !want[0].Good(now) || want[1].Good(now) {
			t.Error("a key that was revoked is as good as one that was not")
		}
	})
}

// A revoked key can neither create nor revoke keys.
func TestRevokedKeysChangeNone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		for _, id := range []string{"a", "b"} {
			must(t, db.Accounts.PutAPIKey(t.Context(), &data.APIKey{ID: id, Projects: []string{"p"}, Role: "admin", CreatedAt: time.Now()}, nil))
		}
		of := func(credential string) *data.Audit {
			return &data.Audit{At: time.Now(), Project: "p", Credential: credential}
		}
		must(t, db.Accounts.RevokeAPIKey(t.Context(), "a", time.Now(), of("b")))
		if err := db.Accounts.PutAPIKey(t.Context(), &data.APIKey{ID: "c", Projects: []string{"p"}, CreatedAt: time.Now()}, of("a")); !errors.Is(err, data.ErrRevoked) {
			t.Errorf("it makes one: %v", err)
		}
		if err := db.Accounts.RevokeAPIKey(t.Context(), "b", time.Now(), of("a")); !errors.Is(err, data.ErrRevoked) {
			t.Errorf("it revokes one: %v", err)
		}
		if err := db.Accounts.PutAPIKey(t.Context(), &data.APIKey{ID: "d", Projects: []string{"p"}, CreatedAt: time.Now()}, of("of another kind")); err != nil {
			t.Error(err)
		}
		if got, err := db.Accounts.APIKeysAfter(t.Context(), "", 10); err != nil || len(got) != 3 || !got[1].Good(time.Now()) {
			t.Errorf("there are %+v, %v", got, err)
		}
	})
}

// TestKeysAreWrittenBesideAServer writes keys while another has the database for itself and commits.
func TestKeysAreWrittenBesideAServer(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": newSQLite(t), "postgres": postgrestest.New(t)} {
		t.Run(name, func(t *testing.T) {
			server := open(t, url)
			must(t, server.Members().Join(t.Context(), "instance", ""))
			beside, err := storage.Open(t.Context(), storage.Config{URL: url})
			must(t, err)
			var both sync.WaitGroup
			both.Go(func() {
				for n := range int64(50) {
					if err := server.Commit(t.Context(), n+1, new(data.Batch)); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for i := range 50 {
				k := data.APIKey{ID: fmt.Sprintf("key-%02d", i), Projects: []string{"p"}, CreatedAt: time.Now()}
				if err := beside.Accounts.PutAPIKey(t.Context(), &k, nil); err != nil {
					t.Error(err)
				}
			}
			both.Wait()
			if err := beside.Close(); err != nil {
				t.Error(err)
			}
			if list, err := server.Accounts.APIKeysAfter(t.Context(), "", 100); err != nil || len(list) != 50 {
				t.Errorf("the server sees %d keys, %v", len(list), err)
			}
			if err := server.Members().Renew(t.Context(), 50); err != nil {
				t.Errorf("the server has lost the database: %v", err)
			}
		})
	}
}
