package storage

// What is read for who asks is read by these: a key alone, wherever it was got, leads into no other project. Each is looked up once
// in a statement.
const (
	runOfProject    = `(SELECT key FROM runs WHERE key = ? AND project_id = ?)`
	threadOfProject = `(SELECT key FROM threads WHERE key = ? AND project_id = ?)`
)
