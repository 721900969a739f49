package apikey

// Sizes are how many keys are remembered, and how many that are none.
func (k *Keys) Sizes() (known, unknown int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.known), len(k.unknown)
}
