package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// models names the schemas that several areas use, in the order of their references.
func (d *describer) models() {
	s := &d.schemas
	infer[transports.Problem](s, "Problem")
	infer[agui.OutputError](s, "OutputError")
	infer[agui.WorkerOutput](s, "WorkerAgentOutput")
	infer[agui.ToolOutput](s, "ToolAgentOutput")
	infer[agui.TokenUsage](s, "TokenUsage")
	infer[agui.FinishMetadata](s, "FinishMetadata")
	infer[agui.Interrupt](s, "Interrupt")
	infer[agui.Outcome](s, "Outcome")
	d.messages()
	infer[agui.RunAgentInput](s, "RunStartedInput")
	s.name("JSONPatch", list(object("",
		must("op", choice("The operation.", "add", "remove", "replace", "move", "copy", "test")),
		must("path", text("JSON pointer to the target.")), may("from", text("JSON pointer to the source, for `move` and `copy`.")),
		may("value", anything("The value, for `add`, `replace` and `test`."))), "A JSON Patch (RFC 6902)."))
	d.resources()
	for _, f := range forms[:3] {
		s.name(f.name+"Frame", frame(ref(f.name+"Event")))
	}
}

// messages names the schemas of a thread's messages.
func (d *describer) messages() {
	s := &d.schemas
	infer[agui.Source](s, "ContentSource")
	infer[agui.Part](s, "ContentPart")
	infer[agui.Tool](s, "ClientTool")
	infer[agui.Context](s, "Context")
	infer[agui.ResumeEntry](s, "ResumeEntry")
	call := object("A tool call of an assistant message.",
		must("id", text("The call's id.")), must("type", constant("function")),
		must("function", object("", must("name", text("The tool.")), must("arguments", text("The arguments, as a JSON text.")))),
		may("encryptedValue", text("")), may("metadata", object("")))
	s.name("ToolCall", call)
	s.name("ThreadMessage", object("A message of a thread, in AG-UI's form.",
		append([]member{must("id", text("Unique in the thread.")), must("role", choice("The author's role.", roles...))}, messageMembers()...)...))
	known[agui.ToolCall](s, "ToolCall")
	known[agui.Message](s, "ThreadMessage")
}

// messageMembers are a message's members beside its id and role.
func messageMembers() []member {
	return []member{
		may("content", either("Text. User and tool messages may have parts, activity messages an object.",
			text(""), list(anything(""), "Parts; see ContentPart. `binary` parts of dialect 0.0 are accepted too."), object(""))),
		may("name", text("Name of the author.")), may("toolCalls", list(ref("ToolCall"), "Assistant messages only.")),
		may("toolCallId", text("Tool messages only.")), may("error", text("Tool messages only: why the tool failed.")),
		may("activityType", text("Activity messages only.")), may("encryptedValue", text("An opaque value of the provider.")),
		may("subagentRunId", text("The sub-agent invocation it belongs to.")), may("metadata", object("")),
	}
}

// resources names the schemas of runs as resources.
func (d *describer) resources() {
	s := &d.schemas
	infer[wire.Run](s, "Run", may("overrides", ref("Overrides")))
	infer[wire.Question](s, "OpenInterrupt")
	infer[wire.Step](s, "Step")
	infer[wire.Node](s, "NodeState", may("progress", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(1.0)}))
	infer[plugins.PromptTool](s, "SentTool")
	infer[plugins.PromptChange](s, "PromptChange")
	infer[wire.SentMessage](s, "SentMessage", may("content", either("", text(""), list(object("",
		must("type", choice("The kind of part.", "text", "image", "audio", "video", "document")), may("text", text("The text.")),
		may("mimeType", text("Media type of the file.")), may("size", count("Size in bytes.")),
		may("path", text("Path of the attachment.")), may("filename", text("Name of the file.")),
		may("url", text("URL of the file."))), ""))))
	infer[wire.SentPrompt](s, "SentPrompt")
	infer[wire.ModelAnswer](s, "ModelAnswer")
	infer[wire.WholeModelCall](s, "WholeModelCall")
	infer[wire.ModelCall](s, "ModelCall")
	infer[wire.Message](s, "Message")
	infer[wire.Started](s, "Started")
	infer[wire.Cancelled](s, "Cancelled")
	infer[wire.Delivered](s, "Delivered")
	infer[wire.Resumed](s, "Resumed")
	pageOf[wire.Run](s, "RunPage")
	pageOf[wire.Question](s, "InterruptPage")
	pageOf[wire.Step](s, "StepPage")
	pageOf[wire.Message](s, "MessagePage")
	pageOf[wire.ModelCall](s, "ModelCallPage")
	infer[wire.Items[wire.Node]](s, "NodeStates")
	s.named["NodeStates"].Description = "States of a run's nodes."
}

// pageOf names the schema of a page of a list.
func pageOf[T any](s *schemas, name string) {
	infer[wire.Page[T]](s, name)
}
