package remote_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestRelay_ConvertsEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"text": {hello, `
			text assistant
			+ hello 
			+ world
			end success hello world`},
		"a text that nobody ends or begins": {`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"hi"}`, `
			text assistant
			+ hi
			end success hi`},
		"characters that are cut in two": {`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"one \ud83d"}
			{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"x\":\"\uD83D"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ude00\ud83d"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\uDE01\"}"}
			{"type":"TOOL_CALL_END","toolCallId":"c"}
			{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"ok"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ude02 two \\ud83d"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":" \ude00"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`, `
			text assistant
			+ one 
			call f
			args {"x":"
			+ 😀
			args 😁"}
			TOOL_CALL_END
			result success ok
			+ 😂 two \ud83d
			+  �
			end success one 😀😂 two \ud83d �`},
		"characters that are cut in two between shorthands": {`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"\ud83d"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"\ude00 a \ud83d"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"\ude01"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":" b\ud83d"}
			{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"look","parentMessageId":"m","delta":"\"\ud83d"}
			{"type":"TOOL_CALL_CHUNK","delta":"\ude02\""}
			{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":"ok"}`, `
			text assistant
			+ 😀 a 
			+ 😁
			+  b
			call look
			args "
			args 😂"
			TOOL_CALL_END
			result success ok
			end success 😀 a 😁 b`},
		"two texts at once": {`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}
			{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"1"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"2"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}
			{"type":"TEXT_MESSAGE_END","messageId":"b"}`, `
			text assistant
			end success 
			text assistant
			end success 
			text assistant
			+ 1
			end success 1
			text assistant
			+ 2
			end success 2`},
		"shorthands": {`{"type":"REASONING_MESSAGE_CHUNK","messageId":"r","delta":"hm"}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"a"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}
			{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"look","parentMessageId":"m","delta":"{\"x\":"}
			{"type":"TOOL_CALL_CHUNK","delta":"1}"}
			{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"seen"}`, `
			REASONING_START
			REASONING_MESSAGE_START
			thinks hm
			text assistant
			+ a
			+ b
			call look
			args {"x":
			args 1}
			TOOL_CALL_END
			result success seen
			end success ab
			REASONING_MESSAGE_END
			REASONING_END`},
		"names of before": {`{"type":"THINKING_START"}
			{"type":"THINKING_TEXT_MESSAGE_START"}
			{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"hm"}
			{"type":"THINKING_TEXT_MESSAGE_END"}
			{"type":"THINKING_END"}`, `
			REASONING_START
			REASONING_MESSAGE_START
			thinks hm
			REASONING_MESSAGE_END
			REASONING_END`},
		"an attribution that was not announced": {`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","subagentRunId":"s"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi","subagentRunId":"s"}`, `
			text assistant
			+ hi
			end success hi`},
		"a sub-agent that leaves things open": {`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"critic"}
			{"type":"STEP_STARTED","stepName":"read","subagentRunId":"s"}
			{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","subagentRunId":"s"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi"}
			{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`, `
			agent critic (sub)
			step worker/read (sub)
			text assistant (sub)
			+ hi
			end success hi (sub)
			done worker/read (sub)
			SUBAGENT_FINISHED (sub)`},
		"a call of its own without a result": {`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look"}
			{"type":"TOOL_CALL_END","toolCallId":"c"}`, `
			call look
			args {}
			TOOL_CALL_END
			result partial The remote agent has not shown the result`},
		"patches of a state that was not sent": {`{"type":"STATE_DELTA","delta":[{"op":"test","path":"/x","value":1},{"op":"replace","path":"/n","value":12345678901234567890}]}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":1},{"op":"add","path":"/a~1b/c","value":{}}]}
			{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/gone"},{"op":"remove","path":"/a~1b/c"}]}
			{"type":"STATE_DELTA","delta":[{"op":"move","from":"/gone","path":"/m"}]}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n/o","value":2}]}
			{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/gone","value":2}]}`, `
			delta [{"op":"add","path":"/n","value":12345678901234567890}]
			delta [{"op":"add","path":"/a~1b","value":{"c":{}}},{"op":"add","path":"/list","value":[1]}]
			delta [{"op":"remove","path":"/a~1b/c"}]
			delta [{"op":"add","path":"/list/-","value":2}]
			delta [{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/list"},{"op":"replace","path":"/n","value":1}]`},
		"results of calls that were not announced": {`{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"x","toolCallName":"look"}
			{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"again"}
			{"type":"TOOL_CALL_RESULT","messageId":"s","toolCallId":"","content":"of no call"}
			{"type":"MESSAGES_SNAPSHOT","messages":[
			{"id":"q","role":"tool","toolCallId":"c","content":"x"},
			{"id":"t","role":"tool","toolCallId":"d","content":"y"}]}`, `
			call look
			args {}
			TOOL_CALL_END
			result success x
			call tool
			args {}
			TOOL_CALL_END
			result success y`},
		"steps": {`{"type":"STEP_STARTED","stepName":"plan"}
			{"type":"STEP_STARTED","stepName":"plan"}
			{"type":"STEP_FINISHED","stepName":"plan"}
			{"type":"STEP_FINISHED","stepName":"plan"}
			{"type":"STEP_STARTED","stepName":"write"}`, `
			step worker/plan
			done worker/plan
			step worker/write
			done worker/write`},
		"state": {`{"type":"STATE_SNAPSHOT","snapshot":{"n":1,"list":[1],"gone":null}}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/nowhere","value":1},{"op":"replace","path":"/n","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"","value":{"n":1,"list":[1,2,3]}}]}
			{"type":"STATE_SNAPSHOT","snapshot":7}`, `
			delta [{"op":"add","path":"/gone","value":null},{"op":"add","path":"/list","value":[1]},{"op":"add","path":"/n","value":1}]
			delta [{"op":"add","path":"/list/-","value":2}]
			delta [{"op":"remove","path":"/gone"},{"op":"add","path":"/list/-","value":3}]`},
		"members of other types": {`{"type":"TEXT_MESSAGE_START","messageId":7,"role":"assistant","timestamp":"now"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":7,"delta":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}
			{"type":"TEXT_MESSAGE_END","messageId":7}
			{"type":"TOOL_CALL_START","toolCallId":1,"toolCallName":"look","parentMessageId":7}
			{"type":"TOOL_CALL_ARGS","toolCallId":1,"delta":{"x":1}}
			{"type":"TOOL_CALL_END","toolCallId":1}
			{"type":"TOOL_CALL_RESULT","messageId":2,"toolCallId":1,"content":{"n": [1915883588174806058]}}
			{"type":"TOOL_CALL_START","toolCallId":"n","toolCallName":"look"}
			{"type":"TOOL_CALL_END","toolCallId":"n"}
			{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"n","content":7,"role":null}
			{"type":"MESSAGES_SNAPSHOT","messages":[7,{"id":"odd"},
			{"id":"m2","role":"assistant","content":null,"toolCalls":[{"id":"c","function":{"name":"look","arguments":{"y":1}}}]},
			{"id":"q","role":"tool","toolCallId":"c","content":{"seen":true}}]}
			{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":"success","usage":7}`, `
			text assistant
			+ ab
			end success ab
			call look
			args {"x":1}
			TOOL_CALL_END
			result success {"n": [1915883588174806058]}
			call look
			args {}
			TOOL_CALL_END
			result success 7
			call look
			args {"y":1}
			TOOL_CALL_END
			result success {"seen":true}`},
		"what nobody knows": {`{"type":"FUTURE","x":1}
			{"type":"lower case"}
			{"type":"CUSTOM","name":"chart","value":[1]}
			{"type":"CUSTOM","name":"none"}
			{"type":"RAW","event":{"a":1}}
			[DONE]
			{}
			null
			{"type":"TEXT_MESSAGE_END","messageId":"nobody"}`, `
			FUTURE
			custom chart [1]`},
		"a snapshot": {hello + `
			{"type":"MESSAGES_SNAPSHOT","messages":[
			{"id":"u","role":"user","content":"whatever"},
			{"id":"other","role":"assistant","content":"hello world"},
			{"id":"m2","role":"assistant","content":"more","toolCalls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{}"}}]},
			{"id":"q","role":"tool","toolCallId":"c","content":"seen"}]}`, `
			text assistant
			+ hello 
			+ world
			end success hello world
			text assistant
			+ more
			end success more
			call look
			args {}
			TOOL_CALL_END
			result success seen`},
	} {
		t.Run(name, func(t *testing.T) {
			in := strings.ReplaceAll(strings.ReplaceAll(tt.in, "[\n", "["), ",\n", ",")
			s := serve(t, stream(started+in+finished))
			res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go", Node: "worker"}})
			if res.Err != nil {
				t.Error(res.Err)
			}
			if diff := cmp.Diff(trim(tt.want), brief(res.Events)); diff != "" {
				t.Errorf("(-want +got):\n%s\nlog: %s", diff, s.logged())
			}
		})
	}
}

func TestRelay_UsageAndResult(t *testing.T) {
	t.Parallel()
	s := serve(t, stream(started+`{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":"42","usage":[{"provider":"p","model":"m","inputTokens":3,"outputTokens":4}]}`))
	res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
	want := []agui.TokenUsage{{Provider: "p", Model: "m", InputTokens: 3, OutputTokens: 4, TotalTokens: 7}}
	if diff := cmp.Diff(want, res.Usage); diff != "" || res.Output.Answer != "42" {
		t.Errorf("answer %q, usage %s", res.Output.Answer, diff)
	}
}
