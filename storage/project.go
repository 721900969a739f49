package storage

// Reads on behalf of a client use these conditions: a key alone never reaches another project's rows. Each is evaluated
// once per statement.
const (
	runOfProject    = `(SELECT key FROM runs WHERE key = ? AND project_id = ?)`
	threadOfProject = `(SELECT key FROM threads WHERE key = ? AND project_id = ?)`
)
