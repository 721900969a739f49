package traces

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/batonrun/baton/runtime"
)

// The attributes, by the conventions for generative AI, and ours.
const (
	operation      = "gen_ai.operation.name"
	conversationID = "gen_ai.conversation.id"
	agentName      = "gen_ai.agent.name"
	runID          = "baton.run.id"
	project        = "baton.project"
)

// describe is how an operation that begins is shown.
func describe(op runtime.Op) (name string, kind trace.SpanKind, attrs []attribute.KeyValue) {
	for key, value := range map[string]string{conversationID: op.Thread, runID: op.Run, project: op.Project} {
		if value != "" {
			attrs = append(attrs, attribute.String(key, value))
		}
	}
	kind = trace.SpanKindInternal
	switch op.Kind {
	case runtime.OpStart:
		return named("start_run", op.Name), kind, append(attrs, attribute.String(agentName, op.Name))
	case runtime.OpRun:
		return named("run", op.Name), kind, append(attrs, attribute.String(agentName, op.Name))
	case runtime.OpAgent:
		attrs = append(attrs, attribute.String(operation, "invoke_agent"), attribute.String(agentName, op.Name))
		if op.ID != "" {
			attrs = append(attrs, attribute.String("baton.subagent.id", op.ID))
		}
		return named("invoke_agent", op.Name), kind, attrs
	case runtime.OpTool:
		return named("execute_tool", op.Name), kind, append(attrs,
			attribute.String(operation, "execute_tool"), attribute.String("gen_ai.tool.name", op.Name),
			attribute.String("gen_ai.tool.call.id", op.ID), attribute.String("gen_ai.tool.type", "function"))
	}
	return "chat", trace.SpanKindClient, append(attrs, attribute.String(operation, "chat"))
}

func named(what, name string) string {
	if name == "" {
		return what
	}
	return what + " " + name
}

// modelOf is how a call of a model that has ended is shown.
func modelOf(end runtime.ModelEnd) (name string, attrs []attribute.KeyValue) {
	u := &end.Usage
	provider := u.Provider
	if provider == "google" {
		provider = "gcp.gemini"
	}
	for key, value := range map[string]string{
		"gen_ai.provider.name": provider, "gen_ai.request.model": u.Model, "gen_ai.response.model": u.Model, "gen_ai.response.id": end.RequestID,
	} {
		if value != "" {
			attrs = append(attrs, attribute.String(key, value))
		}
	}
	for key, n := range map[string]int64{
		"gen_ai.usage.input_tokens": u.InputTokens, "gen_ai.usage.output_tokens": u.OutputTokens,
		"gen_ai.usage.cache_read.input_tokens": u.CachedInputTokens, "gen_ai.usage.reasoning.output_tokens": u.ReasoningTokens,
	} {
		if n > 0 {
			attrs = append(attrs, attribute.Int64(key, n))
		}
	}
	if end.FinishReason != "" {
		attrs = append(attrs, attribute.StringSlice("gen_ai.response.finish_reasons", []string{end.FinishReason}))
	}
	return named("chat", u.Model), attrs
}
