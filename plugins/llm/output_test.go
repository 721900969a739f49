package llm

import "testing"

// Endless blanks are not buffered.
func TestMember_KeepsNoBlanks(t *testing.T) {
	t.Parallel()
	var m member
	m.next(`{"answer"`)
	for range 1000 {
		m.next(" ")
	}
	if len(m.rest) > len(memberName)+1 {
		t.Errorf("%d bytes are kept", len(m.rest))
	}
	if got := m.next(`: "x`); got != "x" {
		t.Errorf("behind blanks: %q", got)
	}
}
