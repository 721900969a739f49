package storage

// What belongs to a thread is deleted in the order of these statements. Each takes the thread's key and how
// many rows it may delete; what hangs on a run goes with it.
const (
	deleteThreadEvents = `
DELETE FROM events WHERE thread_key = ? AND last_event_id <= (
	SELECT max(last_event_id) FROM (
		SELECT last_event_id FROM events WHERE thread_key = ? ORDER BY last_event_id LIMIT ?) AS oldest)`

	deleteThreadSegments = `
DELETE FROM event_segments WHERE thread_key = ? AND last_event_id <= (
	SELECT max(last_event_id) FROM (
		SELECT last_event_id FROM event_segments WHERE thread_key = ? ORDER BY last_event_id LIMIT ?) AS oldest)`

	deleteThreadMessages = `
DELETE FROM messages WHERE thread_key = ? AND seq <= (
	SELECT max(seq) FROM (SELECT seq FROM messages WHERE thread_key = ? ORDER BY seq LIMIT ?) AS oldest)`

	deleteThreadMemos = `
DELETE FROM memos WHERE (run_key, generation, step, name, n) IN (
	SELECT m.run_key, m.generation, m.step, m.name, m.n FROM runs r JOIN memos m ON m.run_key = r.key
	WHERE r.thread_key = ? AND r.thread_key = ? LIMIT ?)`

	deleteThreadKeys = `
DELETE FROM idempotency_keys WHERE scope IN (
	SELECT k.scope FROM runs r JOIN idempotency_keys k ON k.run_key = r.key
	WHERE r.thread_key = ? AND r.thread_key = ? LIMIT ?)`

	deleteThreadRuns = `
DELETE FROM runs WHERE thread_key = ? AND key <= (
	SELECT max(key) FROM (SELECT key FROM runs WHERE thread_key = ? ORDER BY key LIMIT ?) AS oldest)`

	deleteThread = `
DELETE FROM threads WHERE key = ?`
)

var threadParts = []string{
	deleteThreadEvents, deleteThreadSegments, deleteThreadMessages, deleteThreadMemos, deleteThreadKeys,
	deleteThreadRuns,
}

// DeleteThread removes about limit rows of a thread, and reports whether that was all: see [runtime.Tx].
func (tx *tx) DeleteThread(key int64, limit int) (bool, error) {
	if _, err := tx.LockThread(key); err != nil { // against Seal
		return false, err
	}
	if err := tx.keepLastID(key); err != nil {
		return false, err
	}
	for _, part := range threadParts {
		n, err := tx.count(part, key, key, limit)
		if limit -= n; err != nil || limit <= 0 {
			return false, err
		}
	}
	return true, tx.exec(deleteThread, key)
}
