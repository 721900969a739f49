package clients

import (
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

// TanStack AI's client chats, reloads during and before a run, resumes a cut stream, answers earlier questions, and approves calls.
func TestTanStack(t *testing.T) {
	t.Parallel()
	needs(t, "tanstack")
	judge(t, "tanstack", "chat.mjs", nil, "BATON_URL="+startProgram(t, testBinary, "BATON_LIMITS_RUNS_PER_PROJECT=1").url(""))
}

// An agent behind TanStack AI's server works as a remote agent: its text, its tool, whose result follows the announced end of the run, the
// client's tool, which it asks for with a question, and its approvals.
func TestTanStack_AsRemoteAgent(t *testing.T) {
	t.Parallel()
	needs(t, "tanstack")
	p := &pair{near: startProgram(t, testBinary, "REMOTE_URL="+startMaker(t, "tanstack")), thread: "main"}
	tools := []object{{"name": "pick", "description": "Pick", "parameters": object{"type": "object", "properties": object{"of": object{"type": "number"}}}}}
	question := func(events []agui.Event) (asked agui.Interrupt) {
		t.Helper()
		end, ok := events[len(events)-1].(agui.RunFinished)
		if !ok || len(end.Outcome.Interrupts) != 1 {
			t.Fatalf("got %s", describe(events))
		}
		return end.Outcome.Interrupts[0]
	}
	p.check(t, p.turn(t, object{"content": "hello"}), "you said hello success")
	p.check(t, p.turn(t, object{"content": `call double {"n":21}`}), `call:double result:{"doubled":42} it gave {"doubled":42} success`)

	asked := question(p.turn(t, object{"content": `call pick {"of":2}`, "tools": tools}))
	p.check(t, p.turn(t, object{"tools": tools, "messages": []object{{"id": "answer", "role": "tool", "toolCallId": asked.ToolCallID, "content": "red"}}}),
		"result:red it gave red success")

	asked = question(p.turn(t, object{"content": `call deploy {"to":"prod"}`}))
	p.check(t, p.turn(t, object{"resume": []object{{"interruptId": asked.ID, "status": "resolved", "payload": object{"approved": true}}}}),
		"result:deployed prod it gave deployed prod success")
	p.check(t, p.turn(t, object{"content": "bye"}), "you said bye success")
}
