package queue

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// line is a queue in memory.
type line []data.Place

func (l line) read(after data.Place, each data.Each, limit int) (rows []data.Place, err error) {
	var last *data.Place
	for i := range l {
		p := &l[i]
		switch each {
		case data.EachProject:
			if p.Project <= after.Project || last != nil && last.Project == p.Project {
				continue
			}
		case data.EachLane:
			if p.Project != after.Project || p.CompareLanes(&after) <= 0 || last != nil && last.SameLane(p) {
				continue
			}
		case data.EachRow:
			if !p.SameLane(&after) || p.Compare(&after) <= 0 {
				continue
			}
		}
		rows, last = append(rows, *p), p
		if len(rows) == limit {
			break
		}
	}
	return rows, nil
}

// sort orders a queue as the database does.
func (l line) sort() {
	slices.SortFunc(l, func(a, b data.Place) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), a.CompareLanes(&b), a.Compare(&b))
	})
}

// answers are the verdicts about rows, lanes, users and projects; all others are taken.
type answers struct {
	rows     map[int64]bool // that are passed
	lanes    map[string]bool
	users    map[data.Name]bool
	projects map[string]bool
}

func laneOf(p *data.Place) string {
	return fmt.Sprintf("%q %q %q %q", p.Project, p.User, p.Workflow, p.Agent)
}

func (a *answers) admit(p *data.Place) verdict {
	switch {
	case a.projects[p.Project]:
		return closesProject
	case a.users[data.Name{Project: p.Project, User: p.User}]:
		return closesUser
	case a.lanes[laneOf(p)]:
		return closesLane
	case a.rows[p.ThreadKey]:
		return passed
	}
	return takes
}

// model takes rows by the rule: of one project after the other, and in each of one user after the other, the first that can begin.
func model(l line, t *turns, a *answers, most int) (took []int64) {
	for len(took) < most {
		rows := slices.DeleteFunc(slices.Clone(l), func(p data.Place) bool { return a.admit(&p) != takes || slices.Contains(took, p.ThreadKey) })
		if len(rows) == 0 {
			break
		}
		rows = following(rows, t.project, func(p data.Place) string { return p.Project })
		rows = following(rows, t.users[rows[0].Project], func(p data.Place) string { return p.User })
		first := slices.MinFunc(rows, func(a, b data.Place) int { return a.Compare(&b) })
		took = append(took, first.ThreadKey)
		t.serve(first.Project, first.User)
	}
	return took
}

// following returns the rows with the name behind another one, or with the first name.
func following(rows line, last string, name func(data.Place) string) line {
	slices.SortStableFunc(rows, func(a, b data.Place) int { return cmp.Compare(name(a), name(b)) })
	at := max(slices.IndexFunc(rows, func(p data.Place) bool { return name(p) > last }), 0)
	next := name(rows[at])
	return slices.DeleteFunc(rows, func(p data.Place) bool { return name(p) != next })
}

func randomLine(r *rand.Rand) line {
	var l line
	for key := range int64(r.IntN(60)) {
		agent := fmt.Sprint("agent", r.IntN(3))
		p := data.Place{
			ThreadKey: key + 1, RunKey: key + 1, Todo: data.ToClaim, Project: fmt.Sprint("p", r.IntN(3)), User: fmt.Sprint("u", r.IntN(4)),
			Workflow: agent, Answered: r.IntN(5) == 0, Since: time.UnixMilli(int64(r.IntN(20))),
		}
		if r.IntN(3) > 0 {
			p.Agent = agent
		}
		l = append(l, p)
	}
	l.sort()
	return l
}

func randomAnswers(r *rand.Rand, l line) *answers {
	a := &answers{make(map[int64]bool), make(map[string]bool), make(map[data.Name]bool), make(map[string]bool)}
	for i := range l {
		p := &l[i]
		switch r.IntN(24) {
		case 0, 1, 2, 3:
			a.rows[p.ThreadKey] = true
		case 4, 5:
			a.lanes[laneOf(p)] = true
		case 6:
			a.users[data.Name{Project: p.Project, User: p.User}] = true
		case 7:
			a.projects[p.Project] = r.IntN(3) == 0
		}
	}
	return a
}

func TestChoice_ServesProjectsAndTheirUsersInTurn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 0))
		l := randomLine(r)
		got, want := newTurns(), newTurns()
		for range 6 {
			a, most := randomAnswers(r, l), 1+r.IntN(8)
			var took []int64
			c := choice{turns: &got, line: l.read, most: most, reads: 1000, admit: func(p *data.Place) verdict {
				v := a.admit(p)
				if v == takes {
					took = append(took, p.ThreadKey)
				}
				return v
			}}
			more, err := c.run()
			if is := model(l, &want, a, most); err != nil || !slices.Equal(took, is) || more != (len(took) == most) {
				t.Fatalf("seed %d: took %v, more %v, %v; want %v\n%+v\n%+v", seed, took, more, err, is, l, a)
			}
			l = slices.DeleteFunc(l, func(p data.Place) bool { return slices.Contains(took, p.ThreadKey) })
		}
	}
}

// A look reads few of the rows that cannot begin, and the next ones come to the others.
func TestChoice_GoesOnBehindWhatIsBlocked(t *testing.T) {
	t.Parallel()
	row := func(project, user, agent string, since int) data.Place {
		return data.Place{Todo: data.ToClaim, Project: project, User: user, Workflow: agent, Agent: agent, Since: time.UnixMilli(int64(since))}
	}
	var users, projects, passes line
	for i := range 1000 {
		users = append(users, row("p", fmt.Sprintf("u%04d", i), "a", 1), row("p", fmt.Sprintf("u%04d", i), "a", 2))
	}
	for i := range 400 {
		projects = append(projects, row(fmt.Sprintf("p%04d", i), "u", "a", 1))
		passes = append(passes, row("p", "u", "a", i))
	}
	passes = append(passes, row("p", "u", "b", 1000))
	for name, test := range map[string]struct {
		line
		blocks verdict
		wanted func(*data.Place) bool
	}{
		"users":    {users, closesUser, func(p *data.Place) bool { return p.User == "u0900" }},
		"projects": {projects, closesUser, func(p *data.Place) bool { return p.Project == "p0399" }},
		"rows":     {passes, passed, func(p *data.Place) bool { return p.Agent == "b" }},
	} {
		for i := range test.line {
			test.line[i].ThreadKey = int64(i + 1)
		}
		for _, most := range []int{1, 8, 64} {
			turns, found := newTurns(), false
			for look := 0; !found; look++ {
				rows := 0
				c := choice{turns: &turns, most: most, reads: readAtOnce, admit: func(p *data.Place) verdict {
					if found = found || test.wanted(p); test.wanted(p) {
						return takes
					}
					return test.blocks
				}}
				c.line = func(after data.Place, each data.Each, limit int) ([]data.Place, error) {
					list, err := test.read(after, each, limit)
					rows += len(list)
					return list, err
				}
				if _, err := c.run(); err != nil || rows > readAtOnce+rowsAtOnce || look > 10 {
					t.Fatalf("%s for %d: look %d has read %d rows, %v", name, most, look, rows, err)
				}
			}
		}
	}
}
