package exec

// A node with a map is executed as a whole first: its items are recorded, and a person approves them if the node says so. Then each item is
// an execution of the node of its own.

// unfold records the items of a map, unless that was done before. It returns the items that need an approval first, "" for
// nothing.
func (x *execution) unfold() (unapproved string, err error) {
	out := &x.l.out
	out.mu.Lock()
	defer out.mu.Unlock()
	if !out.nodes.Unfolded(x.n) {
		now := out.nodes.Scene(x.in.Query, out.span.State(), x.n)
		out.mu.Unlock()
		items, err := now.Items(x.limit, x.n)
		out.mu.Lock()
		if err != nil {
			return "", err
		}
		if gate := out.span.Gate(); gate != nil {
			return "", gate
		}
		out.put(out.nodes.Unfold(x.n, x.l.run, items)...)
	}
	return out.nodes.Unapproved(x.n), nil
}
