package llm

import "testing"

// A model that sends blanks without end has none of them kept.
func TestMember_KeepsNoBlanks(t *testing.T) {
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
