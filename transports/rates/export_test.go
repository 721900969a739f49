package rates

// Known is of how many users and projects something is remembered.
func (m *Meter) Known() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}
