package rows

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// The instances of a cluster count the runs of all of them: QUEUED ones now and then, RUNNING ones under a lock when one is added.

const (
	countRunningOfProjects = `
SELECT project_id, user_id, count(*) FROM runs WHERE project_id = ANY (?) AND status = 'RUNNING' GROUP BY project_id, user_id`

	countRunningOfUsers = `
SELECT r.project_id, r.user_id, count(*) FROM ` + unnestNames + `
CROSS JOIN runs r WHERE r.project_id = asked.project AND r.user_id = asked.owner AND asked.name = '' AND r.status = 'RUNNING'
GROUP BY r.project_id, r.user_id`

	countQueued = `
SELECT project_id, user_id, count(*) FROM runs WHERE status = 'QUEUED' GROUP BY project_id, user_id`
)

// userCount is the number of runs of a user.
type userCount struct {
	of data.Name
	n  int
}

func scanUserCount(rows *sql.Rows) (o userCount, err error) {
	return sqldb.Scan(rows, &o, &o.of.Project, &o.of.User, &o.n)
}

// countRunning counts the RUNNING runs of the requested projects and users, unless another instance does. On the database of one
// server, which knows its runs, nothing is requested.
func (vs *Views) countRunning(asks []data.Ask) error {
	var names []data.Name
	for i := range asks {
		n := asks[i].Counts
		if _, asked := vs.shared.Running[n]; n == (data.Name{}) || asked || vs.elsewhere[runsOf(n)] {
			continue
		}
		vs.shared.Running[n] = 0
		names = append(names, n)
	}
	return countRunning(vs.tx.Context(), vs.tx, vs.tx.DB, names, vs.shared.Running)
}

// countRunning adds up the RUNNING runs of projects, with those of their users, and of users.
func countRunning(ctx context.Context, q sqldb.Querier, d *sqldb.DB, names []data.Name, sums map[data.Name]int) error {
	var projects []string
	var users []data.Name
	for _, n := range names {
		if n.User == "" {
			projects = append(projects, n.Project)
		} else {
			users = append(users, n)
		}
	}
	if len(projects) > 0 {
		list, err := sqldb.All(ctx, q, scanUserCount, countRunningOfProjects, d.List(projects))
		if err != nil {
			return err
		}
		for _, o := range list {
			sums[o.of] = o.n
			sums[data.Name{Project: o.of.Project}] += o.n
		}
	}
	if len(users) == 0 {
		return nil
	}
	list, err := sqldb.All(ctx, q, scanUserCount, countRunningOfUsers, d.Arrays(namesOf(users))...)
	for _, o := range list {
		sums[o.of] = o.n
	}
	return err
}

// CountRunning counts RUNNING runs: see [data.Queue].
func (r *Queue) CountRunning(ctx context.Context, names []data.Name) (map[data.Name]int, error) {
	sums := make(map[data.Name]int, len(names))
	return sums, countRunning(ctx, r.q, r.d, names, sums)
}

// CountQueued counts QUEUED runs: see [data.Queue].
func (r *Queue) CountQueued(ctx context.Context) (map[data.Name]int, error) {
	list, err := sqldb.All(ctx, r.q, scanUserCount, countQueued)
	sums := make(map[data.Name]int)
	for _, o := range list {
		sums[o.of] = o.n
		sums[data.Name{Project: o.of.Project}] += o.n
		sums[data.Name{}] += o.n
	}
	return sums, err
}
