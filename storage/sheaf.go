package storage

import (
	"regexp"
	"slices"
	"strings"
)

// sheaf gathers statements that write, of which each costs a round trip to PostgreSQL, so that they go there as one: a
// WITH that has each of them as a part. The parts do not see what the others write, and are carried out in no order, so
// a sheaf holds at most one for each table. What they refer to among each other is checked at its end.
type sheaf struct {
	queries []string
	numbers []byte // of the queries
	tables  []string
	args    [][]any
	size    int
}

// written finds the table that a statement writes.
var written = regexp.MustCompile(`(?:INSERT INTO|UPDATE) (\w+)`)

// maxSheaves is how many different sheaves a session prepares. There are a few usual ones; of statements that meet but
// rarely each goes alone.
const maxSheaves = 100

// gather adds a statement to the sheaf, which is sent before when it has one for the table, or is large.
func (tx *tx) gather(query string, f form, args []any, size int) error {
	g := tx.session.gathered(query, f)
	if slices.Contains(tx.sheaf.tables, g.table) || tx.sheaf.size+size > tx.d.message {
		if err := tx.send(); err != nil {
			return err
		}
	}
	s := &tx.sheaf
	s.queries, s.numbers = append(s.queries, g.query), append(s.numbers, g.number)
	s.tables, s.args = append(s.tables, g.table), append(s.args, args)
	s.size += size
	return nil
}

// send sends what was gathered. Whatever else the transaction does comes after it.
func (tx *tx) send() error {
	s := tx.sheaf
	tx.sheaf = sheaf{}
	if tx.err != nil || len(s.queries) == 0 {
		return tx.err
	}
	if query, ok := tx.session.together(&s); ok {
		_, err := tx.run(query, slices.Concat(s.args...))
		return err
	}
	for i, query := range s.queries {
		if _, err := tx.run(query, s.args[i]); err != nil {
			return err
		}
	}
	return nil
}

// query is the sheaf as one statement.
func (s *sheaf) query() string {
	var b strings.Builder
	for i, query := range s.queries {
		switch {
		case i == len(s.queries)-1:
			b.WriteString(")")
		case i == 0:
			b.WriteString("WITH ")
		default:
			b.WriteString("), ")
		}
		if i < len(s.queries)-1 {
			b.WriteString(s.tables[i] + "_part AS (")
		}
		b.WriteString(query)
	}
	return b.String()
}

// gathered is a statement as it stands in a sheaf.
type gathered struct {
	query, table string
	number       byte // how many the session had gathered before it
}

func (s *session) gathered(query string, f form) gathered {
	key := inForm{query, f}
	g, ok := s.parts[key]
	if !ok {
		g = gathered{query, written.FindStringSubmatch(query)[1], byte(len(s.parts))} // there are some thirty
		if f == rows {
			g.query = manyRows(query)
		}
		s.parts[key] = g
	}
	return g
}

// together returns the sheaf as one statement, if it is more than one and the session prepares it.
func (s *session) together(of *sheaf) (query string, ok bool) {
	if len(of.queries) < 2 {
		return "", false
	}
	if query, ok = s.sheaves[string(of.numbers)]; !ok && len(s.sheaves) < maxSheaves {
		query, ok = of.query(), true
		s.sheaves[string(of.numbers)] = query
	}
	return query, ok
}
