// Package traces exports OpenTelemetry spans for requests for a run, runs, workers, and calls of tools and models, named by the
// conventions for generative AI (invoke_agent, execute_tool, chat). They are sent over OTLP/HTTP if the standard OTEL_…
// variables say so. Spans contain no inputs and outputs.
package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/batonrun/baton/runtime"
)

// Traces is a runtime.Tracer that sends spans to a collector. Shut it down behind the server.
type Traces struct {
	provider *sdktrace.TracerProvider // nil for that of the program
	tracer   trace.Tracer
	w3c      propagation.TraceContext
}

var _ runtime.Tracer = (*Traces)(nil)

// FromEnv returns the traces that the environment configures, nil for none: they are sent if OTEL_TRACES_EXPORTER is otlp, or if
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and OTEL_SDK_DISABLED is not true. The other
// standard variables apply too, for the sampler, the resource, headers and batches. Export errors go to log, for the whole
// process.
func FromEnv(ctx context.Context, version string, log *slog.Logger) (*Traces, error) {
	asked, err := asked()
	if err != nil || !asked {
		return nil, err
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetLogger(logr.New(sink(func(msg string) { log.Warn("OpenTelemetry reports an error", "error", msg) })))
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "baton"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces could not be sent", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	return &Traces{provider: provider, tracer: provider.Tracer("github.com/batonrun/baton", trace.WithInstrumentationVersion(version))}, nil
}

// newExporter returns the exporter that the environment configures. The library goes on without the variables that it cannot read, and
// logs them; here they are errors.
func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	var unread []string
	otel.SetLogger(logr.New(sink(func(msg string) { unread = append(unread, msg) })))
	exporter, err := otlptracehttp.New(ctx)
	if err == nil && len(unread) > 0 {
		err = fmt.Errorf("a variable OTEL_EXPORTER_OTLP_… is malformed (%s): headers are name=value with commas between, timeouts milliseconds", strings.Join(unread, ", "))
		err = errors.Join(err, exporter.Shutdown(ctx))
	}
	return exporter, err
}

// sink receives the errors that the library logs, as a message without the error's text and attributes: those quote variables, which
// may have tokens and passwords.
type sink func(msg string)

// Error implements logr.LogSink.
func (s sink) Error(_ error, msg string, _ ...any) { s(msg) }

// Init, Enabled, Info, WithValues and WithName implement logr.LogSink.
func (s sink) Init(logr.RuntimeInfo)          {}
func (s sink) Enabled(int) bool               { return false }
func (s sink) Info(int, string, ...any)       {}
func (s sink) WithValues(...any) logr.LogSink { return s }
func (s sink) WithName(string) logr.LogSink   { return s }

// New returns traces that end in the program's own provider, which the program shuts down.
func New(provider trace.TracerProvider) *Traces {
	return &Traces{tracer: provider.Tracer("github.com/batonrun/baton")}
}

// asked reports whether the environment enables traces.
func asked() (bool, error) {
	on := false
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		on = on || os.Getenv(name) != ""
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
	case "otlp":
		on = true
	case "none":
		on = false
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; there are otlp and none", exporter)
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		on = false
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if p := os.Getenv(name); on && !slices.Contains([]string{"", "http/protobuf"}, p) {
			return false, fmt.Errorf("%s is %q; traces are sent as http/protobuf", name, p)
		}
	}
	return on, nil
}

// Collector is the address of the collector that the environment names.
func Collector() (string, error) {
	name := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "https://localhost:4318")
	u, err := url.Parse(name)
	switch {
	case err != nil || u.Hostname() == "":
		return "", errors.New("the endpoint is no URL")
	case u.Port() != "":
		return u.Host, nil
	case u.Scheme == "http":
		return net.JoinHostPort(u.Hostname(), "80"), nil
	}
	return net.JoinHostPort(u.Hostname(), "443"), nil
}

// Shutdown sends the remaining spans, until ctx is done.
func (t *Traces) Shutdown(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Begin starts a span.
func (t *Traces) Begin(ctx context.Context, op runtime.Op) (context.Context, func(runtime.End)) {
	name, kind, attrs := describe(op)
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	return ctx, func(end runtime.End) {
		if span.IsRecording() {
			finish(span, op, end)
		}
		span.End()
	}
}

// Parent names the span of ctx.
func (t *Traces) Parent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	t.w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Within returns ctx inside the span of a traceparent. An invalid one changes nothing.
func (t *Traces) Within(ctx context.Context, parent string) context.Context {
	return t.w3c.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

// finish records the end of an operation. It omits the error's text, which may quote inputs.
func finish(span trace.Span, op runtime.Op, end runtime.End) {
	if op.Kind == runtime.OpModel {
		name, attrs := modelOf(end.Model)
		span.SetName(name)
		span.SetAttributes(attrs...)
	}
	if op.Kind == runtime.OpStart && end.Run != "" {
		span.SetAttributes(attribute.String(runID, end.Run), attribute.String(conversationID, end.Thread))
	}
	if end.Status != "" {
		span.SetAttributes(attribute.String("baton.run.status", strings.ToLower(string(end.Status))))
	}
	code := end.Code
	if code == "" && end.Err != nil {
		code = "_OTHER"
	}
	if code != "" {
		span.SetStatus(codes.Error, code)
		span.SetAttributes(attribute.String("error.type", code))
	}
}
