package plugins

import "context"

type traceKey struct{}

// WithTraceParent returns a context with a W3C traceparent. A Host that traces its runs calls it for the contexts of
// workers and tools.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}

// TraceParent returns the W3C traceparent of ctx, "" without tracing. A worker or tool that calls another server sends it
// there as the header traceparent, so that the spans of both servers form one trace.
func TraceParent(ctx context.Context) string {
	parent, _ := ctx.Value(traceKey{}).(string)
	return parent
}
