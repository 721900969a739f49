package attach_test

import (
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/batonrun/baton/runtime/attach"
)

func TestInside(t *testing.T) {
	for _, c := range []struct {
		user, path string
		want       bool
	}{
		{"alice", "agent-inputs/alice/a.png", true},
		{"alice", "agent-inputs/alice/a/b.png", true},
		{"alice", "agent-inputs/alice/a%20", false},
		{"ä b/c", "agent-inputs/%C3%A4%20b%2Fc/x", true},
		{"ä b/c", "agent-inputs/ä b/c/x", false},
		{"a.b", "agent-inputs/a.b/x", true},
		{".a.", "agent-inputs/%2Ea%2E/x", true},
		{"alice", "agent-inputs/alicia/a", false},
		{"alice", "agent-inputs/alice", false},
		{"alice", "agent-inputs/alice/", false},
		{"alice", "/agent-inputs/alice/a", false},
		{"alice", "agent-inputs/ALICE/a", false},
		{"", "agent-inputs//a", true}, // an empty user name does not exist
	} {
		if got := attach.Inside(c.user, c.path); got != c.want {
			t.Errorf("%q, %q: %v", c.user, c.path, got)
		}
	}
}

// FuzzInside checks that a path inside a user's prefix stays inside however it is decoded.
func FuzzInside(f *testing.F) {
	for _, seed := range []string{"a.png", "..", "../x", "%2e%2e/x", "%252e%252e%252fx", "a\\b", "a//b", "./a", "a/.", "a\x00", "%c0%ae", "..;/x", "a%", "a ."} {
		f.Add("alice", seed)
		f.Add("a/../b%", seed)
	}
	f.Fuzz(func(t *testing.T, user, rest string) {
		prefix := attach.Prefix(user)
		if strings.Count(prefix, "/") != 2 || strings.ContainsAny(prefix, "\\\x00 ") || user != "" && path.Clean(prefix)+"/" != prefix {
			t.Fatalf("prefix %q", prefix)
		}
		p := prefix + rest
		for range 5 {
			if !attach.Inside(user, p) {
				return
			}
			rest := strings.TrimPrefix(p, prefix)
			for _, reader := range []string{rest, strings.ReplaceAll(rest, `\`, "/"), strings.TrimRight(rest, ". ")} {
				if clean := path.Clean("/" + reader); clean != "/"+reader || strings.Contains(reader, "..") && path.Clean(reader) != reader {
					t.Fatalf("%q is inside, and read as %q", p, clean)
				}
			}
			if strings.ContainsFunc(rest, func(r rune) bool { return r >= unicode.MaxASCII || r <= ' ' }) {
				t.Fatalf("%q is inside", p)
			}
			decoded, err := url.PathUnescape(rest)
			if err != nil {
				t.Fatalf("%q is inside and not encoded as it should be", p)
			}
			p = prefix + decoded
		}
	})
}

// FuzzKey checks that keys are plain, begin with the project, and differ between users and projects.
func FuzzKey(f *testing.F) {
	f.Add("p", "u", "q", "v")
	f.Add("p/q", "u", "p", "q/u")
	f.Add("..", "a", ".", "b")
	f.Add(strings.Repeat("ü", 200), "a", strings.Repeat("ü", 199)+"ä", "a")
	f.Fuzz(func(t *testing.T, project, user, project2, user2 string) {
		if project == "" || user == "" || project2 == "" || user2 == "" {
			return
		}
		key, key2 := attach.Key(project, user, "agent-inputs/x/id.png"), attach.Key(project2, user2, "agent-inputs/x/id.png")
		if (project != project2 || user != user2) && key == key2 {
			t.Fatalf("%q of %q and %q of %q are both %q", user, project, user2, project2, key)
		}
		if parts := strings.Split(key, "/"); len(parts) != 4 || path.Clean(key) != key || strings.Contains(key, "/.") || key[0] == '.' {
			t.Fatalf("key %q", key)
		}
		for part := range strings.SplitSeq(key, "/") {
			if len(part) == 0 || len(part) > 200 {
				t.Fatalf("key %q", key)
			}
		}
	})
}
