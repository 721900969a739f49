package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/data"
)

// The threads of a project are listed beside those of one user, and its users with the numbers of their threads.
func testUsers(t *testing.T, f *fixture) {
	ctx := t.Context()
	for i, whose := range []struct{ project, user string }{
		{"project", "bob"}, {"project", "ann"}, {"elsewhere", "zoe"}, {"project", "bob"}, {"project", "Bobby"}, {"project", "ann"},
	} {
		th := f.threadOf(t, whose.user, fmt.Sprint("thread", i))
		th.Project, th.ConversationID, th.UpdatedAt, th.Title = whose.project, fmt.Sprint("conversation ", i), at(i), fmt.Sprint("title ", i%2)
		f.put(t, th)
	}
	list := func(filter data.ThreadFilter) (names []string) {
		t.Helper()
		filter.Project, filter.Limit, filter.Count = "project", 2, true
		for more := true; more; {
			p, err := f.ByProject().Threads(ctx, filter)
			if err != nil {
				t.Fatal(err)
			}
			for _, th := range p.Rows {
				filter.BeforeTime, filter.BeforeKey = th.UpdatedAt, th.Key
				names = append(names, th.User+" "+th.ID)
			}
			if more = p.More; filter.Text == "" && p.Total != 5 {
				t.Errorf("of 5 threads %d are counted", p.Total)
			}
		}
		return names
	}
	if got, want := list(data.ThreadFilter{}), []string{"ann thread5", "Bobby thread4", "bob thread3", "ann thread1", "bob thread0"}; !slices.Equal(got, want) {
		t.Errorf("the threads of all are %v, want %v", got, want)
	}
	if got, want := list(data.ThreadFilter{Text: "TITLE 1"}), []string{"ann thread5", "bob thread3", "ann thread1"}; !slices.Equal(got, want) {
		t.Errorf("the threads of all with a text are %v, want %v", got, want)
	}
	users := func(text string) (all []data.ThreadUser) {
		t.Helper()
		filter := data.UserFilter{Project: "project", Text: text, Limit: 1}
		for more := true; more; {
			p, err := f.ByProject().Users(ctx, filter)
			if err != nil || len(p.Rows) > 1 || p.Counted {
				t.Fatal(p, err)
			}
			all = append(all, p.Rows...)
			for _, u := range p.Rows {
				filter.After = u.User
			}
			if more = p.More; p.BehindOne != "" {
				filter.After = p.BehindOne
			}
		}
		slices.SortFunc(all, func(a, b data.ThreadUser) int { return strings.Compare(a.User, b.User) }) // each database has an order of its own
		return all
	}
	bobby, ann, bob := data.ThreadUser{User: "Bobby", Threads: 1, LastActiveAt: at(4)}, data.ThreadUser{User: "ann", Threads: 2, LastActiveAt: at(5)}, data.ThreadUser{User: "bob", Threads: 2, LastActiveAt: at(3)}
	equal(t, "all users", users(""), nil, []data.ThreadUser{bobby, ann, bob})
	equal(t, "some users", users("BOB"), nil, []data.ThreadUser{bobby, bob})
	equal(t, "no users", users("nobody"), nil, []data.ThreadUser(nil))
}

// A user's views are replaced as a whole, and are those of one project.
func testViews(t *testing.T, f *fixture) {
	put := func(project, user string, views ...data.SavedView) {
		t.Helper()
		if err := f.Saved().PutViews(t.Context(), project, user, views); err != nil {
			t.Fatal(err)
		}
	}
	failed, mine := data.SavedView{Name: "failed \x00", Query: "status=failed"}, data.SavedView{Name: "mine"}
	put("project", "ann", failed)
	put("project", "ann", mine, failed)
	put("elsewhere", "ann", failed)
	put("project", "bob", failed)
	put("project", "bob")
	for _, test := range []struct {
		project, user string
		want          []data.SavedView
	}{{"project", "ann", []data.SavedView{mine, failed}}, {"elsewhere", "ann", []data.SavedView{failed}}, {"project", "bob", nil}} {
		if got, err := f.Saved().Views(t.Context(), test.project, test.user); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("the views of %s in %s are %v, %v, want %v", test.user, test.project, got, err, test.want)
		}
	}
}
