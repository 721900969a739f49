package lists

import (
	"cmp"
	"context"
	"database/sql"
	"strings"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// Limits of the threads counted per user, and of the users that a text search reads per page.
const (
	maxOfUser     = 1_000
	lookedAtUsers = 1_000
)

// selectUsers steps from one user to the next in an index, so that those with many threads cost no more than others.
const selectUsers = `
WITH RECURSIVE named (name, n) AS (
	SELECT (SELECT user_id FROM threads WHERE project_id = ? AND user_id > ? ORDER BY user_id LIMIT 1), 1
	UNION ALL
	SELECT (SELECT user_id FROM threads WHERE project_id = ? AND user_id > named.name ORDER BY user_id LIMIT 1), n + 1
	FROM named WHERE name IS NOT NULL AND n < ?)
SELECT name,
	(SELECT count(*) FROM (SELECT 1 FROM threads WHERE project_id = ? AND user_id = named.name LIMIT ?) AS counted),
	(SELECT updated_at FROM threads WHERE project_id = ? AND user_id = named.name ORDER BY updated_at DESC LIMIT 1)
FROM named WHERE name IS NOT NULL ORDER BY name`

func scanThreadUser(rows *sql.Rows) (u data.ThreadUser, err error) {
	return sqldb.Scan(rows, &u, &u.User, &u.Threads, sqldb.Into(&u.LastActiveAt))
}

// Users lists the users with threads in a project. The default limit is 50.
func (r Pages) Users(ctx context.Context, f data.UserFilter) (p data.Page[data.ThreadUser], err error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	if f.Searches() {
		return searched(ctx, r, func(ctx context.Context, r Pages) (data.Page[data.ThreadUser], error) { return r.users(ctx, &f) })
	}
	return r.users(ctx, &f)
}

func (r Pages) users(ctx context.Context, f *data.UserFilter) (p data.Page[data.ThreadUser], err error) {
	most, text := f.Limit+1, strings.ToLower(f.Text)
	if text != "" {
		most = lookedAtUsers
	}
	list, err := sqldb.All(ctx, r.q, scanThreadUser, selectUsers, f.Project, f.After, f.Project, most, f.Project, maxOfUser, f.Project)
	if err != nil {
		return p, err
	}
	for _, u := range list {
		if !strings.Contains(strings.ToLower(u.User), text) {
			continue
		}
		if len(p.Rows) == f.Limit {
			p.More = true
			break
		}
		p.Rows = append(p.Rows, u)
	}
	if !p.More && len(list) == most {
		p.More, p.BehindOne = true, list[len(list)-1].User
	}
	return p, nil
}
