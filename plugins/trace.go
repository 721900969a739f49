package plugins

import "context"

type traceKey struct{}

// WithTraceParent returns ctx with the operation that what is done with it belongs to, as a W3C traceparent. A Host whose runs
// are traced calls it for the contexts of workers and tools.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	return context.WithValue(ctx, traceKey{}, parent)
}

// TraceParent returns the operation that what is done with ctx belongs to, as a W3C traceparent, "" when it is not traced. A worker
// or tool that asks another server sends it there as the header traceparent, so that both servers' spans are one trace.
func TraceParent(ctx context.Context) string {
	parent, _ := ctx.Value(traceKey{}).(string)
	return parent
}
