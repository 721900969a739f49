package tail

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
)

// messageCache has the newest messages of threads, decoded, so that the next turn of a conversation reads no rows that it has read
// before. Commits keep it right: each adds or replaces its messages, and one that hides or deletes some removes the thread. Beside other
// instances, the head of the log says whether they have written too, unless this process executes a run of the thread. It has
// a quarter of the rings' limit of bytes at most, and what they leave of it.
type messageCache struct {
	mu      sync.Mutex // guards the fields below
	threads map[int64]*cachedMessages
	bytes   int64
	uses    int64
}

// cachedMessages are the newest messages that a thread shows.
type cachedMessages struct {
	rows  []data.Message // by seq; shared with readers, so elements never change
	valid bool           // rows are those of the events up to upTo
	whole bool           // rows are all that the thread shows
	upTo  int64
	bytes int
	used  int64 // messageCache.uses at the last use

	removals int64 // data.LogHead.Removals before rows were read

	reads   int // reads of the thread from the store that may become rows
	changes int // commits that have changed messages; a read that a commit overtook is not cached
}

// maxCached limits the messages of a thread in the cache, in bytes.
const maxCached = data.ThreadBytes / 4

// Messages is [data.Reader].Messages, from memory if possible. Rows from memory have no Key and no CreatedAt. The caller must not change
// the rows, nor what they refer to. upTo must not be 0.
func (l *Logs) Messages(ctx context.Context, key, upTo int64, limit int) ([]data.Message, error) {
	c := &l.messages
	head, err := l.checkCached(ctx, key)
	if err != nil {
		return nil, err
	}
	if rows, ok := c.find(key, upTo, limit); ok {
		return rows, nil
	}
	if head == nil && l.cfg.Shared {
		if head, err = l.head(ctx, key); err != nil {
			return nil, err
		}
	}
	known, changes := max(upTo, l.committed(key)), c.beginRead(key)
	rows, err := l.cfg.Store.Messages(ctx, key, 0, limit)
	c.endRead(key, changes, rows, known, head, err == nil && len(rows) < limit, err == nil)
	l.evict()
	if err != nil || !slices.ContainsFunc(rows, func(m data.Message) bool { return m.EventID > upTo }) {
		return rows, err
	}
	return l.cfg.Store.Messages(ctx, key, upTo, limit)
}

// Cached returns those of the newest messages up to an event that are in memory: see [Logs.Messages].
func (l *Logs) Cached(ctx context.Context, key, upTo int64) []data.Message {
	if _, err := l.checkCached(ctx, key); err != nil {
		return nil
	}
	rows, _ := l.messages.find(key, upTo, LatestMessages)
	return rows
}

// checkCached drops the cached messages of a thread if another instance has written or deleted some since. It returns the head of the
// log if it had to be read.
func (l *Logs) checkCached(ctx context.Context, key int64) (*data.LogHead, error) {
	c := &l.messages
	if !l.cfg.Shared || !c.has(key) || l.executes(key) {
		return nil, nil
	}
	head, err := l.head(ctx, key)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.threads[key]; e != nil && e.valid && (e.removals != head.Removals || e.upTo < head.Last) {
		c.drop(key, e)
	}
	return head, nil
}

// head reads the head of a thread's log.
func (l *Logs) head(ctx context.Context, key int64) (*data.LogHead, error) {
	heads, err := l.cfg.Store.LogHeads(ctx, []data.LogPlace{{Thread: key, After: -1}})
	if err == nil && len(heads) == 0 {
		err = data.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &heads[0], nil
}

// has reports whether messages of the thread are cached.
func (c *messageCache) has(key int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.threads[key] != nil
}

// committed returns the thread's last event that was delivered here, 0 if the thread has no tail.
func (l *Logs) committed(key int64) int64 {
	l.mu.Lock()
	t := l.tails[key]
	l.mu.Unlock()
	if t == nil {
		return 0
	}
	return t.Committed()
}

// find returns the newest limit messages of the events up to upTo. ok is false if they have to be read.
func (c *messageCache) find(key, upTo int64, limit int) (rows []data.Message, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.threads[key]
	if e == nil || !e.valid || e.upTo < upTo {
		return nil, false
	}
	c.uses++
	e.used = c.uses
	rows = e.rows
	later := func(m data.Message) bool { return m.EventID > upTo }
	if slices.ContainsFunc(rows, later) {
		rows = slices.DeleteFunc(slices.Clone(rows), later)
	}
	first := max(len(rows)-limit, 0)
	return slices.Clip(rows[first:]), e.whole || len(rows) >= limit
}

// beginRead announces a read of the thread and returns the number of its changes until then.
func (c *messageCache) beginRead(key int64) (changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.threads == nil {
		c.threads = make(map[int64]*cachedMessages)
	}
	e := c.threads[key]
	if e == nil {
		e = new(cachedMessages)
		c.threads[key] = e
	}
	e.reads++
	return e.changes
}

// endRead caches the rows of a read, if it has succeeded and no commit has changed messages meanwhile. upTo is an event that was
// committed before the read, and head that of the log then; nil if no other instance writes.
func (c *messageCache) endRead(key int64, changes int, rows []data.Message, upTo int64, head *data.LogHead, whole, ok bool) {
	size := 0
	first := len(rows)
	for first > 0 && size+rowSize(&rows[first-1]) <= maxCached {
		first--
		size += rowSize(&rows[first])
		upTo = max(upTo, rows[first].EventID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.threads[key]
	if e.reads--; ok && e.changes == changes {
		c.bytes += int64(size - e.bytes)
		e.rows, e.valid, e.upTo, e.bytes = slices.Clip(rows[first:]), true, max(upTo, e.upTo), size
		if head != nil {
			e.removals = head.Removals
		}
		e.whole = whole && size < data.ThreadBytes/8 // the stored form, of which that many bytes are read, may be six times as long
		c.uses++
		e.used = c.uses
	}
	c.tidy(key, e)
}

// tidy removes an unused entry. c.mu is held.
func (c *messageCache) tidy(key int64, e *cachedMessages) {
	if !e.valid && e.reads == 0 {
		delete(c.threads, key)
	}
}

// drop removes the messages of a thread. c.mu is held.
func (c *messageCache) drop(key int64, e *cachedMessages) {
	c.bytes -= int64(e.bytes)
	e.rows, e.valid, e.bytes = nil, false, 0
	c.tidy(key, e)
}

// apply applies a commit to the messages of its thread. removed is set if it has deleted something.
func (c *messageCache) apply(key int64, recs []*Record, rows []data.Row, removed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.threads[key]
	if e == nil {
		return
	}
	removed = removed || e.valid && len(recs) > 0 && recs[0].ID > e.upTo+1 // a commit is missing
	before := e.bytes
	for _, row := range rows {
		switch row := row.(type) {
		case *data.Message:
			e.changes++
			removed = removed || !e.put(row)
		case *data.Hide: // queued messages are not here
			removed = removed || row.FromEvent > 0 || row.FromSeq > 0 || row.ID != ""
		case *data.Delete:
			removed = true
		}
	}
	c.bytes += int64(e.bytes - before)
	switch {
	case removed:
		e.changes++
		c.drop(key, e)
	case len(recs) > 0:
		e.upTo = max(e.upTo, recs[len(recs)-1].ID)
	}
}

// put adds or replaces a message. It returns false if the rows have to be read again.
func (e *cachedMessages) put(m *data.Message) bool {
	at := -1
	for i := range slices.Backward(e.rows) {
		if e.rows[i].ID == m.ID {
			at = i
			break
		}
	}
	shown, n := m.State == data.MessageConsumed, len(e.rows)
	switch {
	case !e.valid || at < 0 && !shown || at < 0 && n > 0 && !e.whole && m.Seq < e.rows[0].Seq:
		return true
	case at >= 0 && (!shown || m.Seq != e.rows[at].Seq), at < 0 && n > 0 && m.Seq <= e.rows[n-1].Seq:
		return false
	}
	text := m.Stored() // which sets the hash
	if len(text) > maxCached {
		return false
	}
	row := data.Message{
		ThreadKey: m.ThreadKey, RunKey: m.RunKey, Seq: m.Seq, EventID: m.EventID, State: m.State, ContextItemIDs: m.ContextItemIDs, Day: m.Day, Hash: m.Hash,
	}
	if row.UnmarshalJSON(text) != nil { // as a read decodes it, and not shared with the run
		return false
	}
	if e.bytes += rowSize(&row); at >= 0 {
		e.bytes -= rowSize(&e.rows[at])
		e.rows = slices.Clone(e.rows)
		e.rows[at] = row
	} else {
		e.rows = append(e.rows, row)
	}
	for len(e.rows) > LatestMessages || e.bytes > maxCached {
		e.bytes -= rowSize(&e.rows[0])
		e.rows, e.whole = e.rows[1:], false
	}
	return true
}

// rowSize returns the memory of a row in bytes.
func rowSize(m *data.Message) int { return data.MessageBytes + fold.Size(&m.Message) }

// evict drops the threads that have not been used for longest until no more than limit bytes are cached.
func (c *messageCache) evict(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes <= limit {
		return
	}
	keys := slices.Collect(maps.Keys(c.threads))
	slices.SortFunc(keys, func(a, b int64) int { return cmp.Compare(c.threads[a].used, c.threads[b].used) })
	for _, key := range keys {
		if c.bytes <= limit-limit/8 {
			return
		}
		c.drop(key, c.threads[key])
	}
}
