package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// RunRequest is a request for a run: the runtime's request and the members that only the transport needs.
type RunRequest struct {
	runtime.StartRequest
	ProjectID       string // the body's; a project in the path or the query takes precedence
	ProtocolVersion string // of AG-UI; empty for clients of 0.0.x
}

// Dialect is the strict AG-UI projection for the client: agui.AGUI1 if it declares version 1.0 or later, else
// agui.AGUI0.
func (r *RunRequest) Dialect() agui.Projection {
	major, _, _ := strings.Cut(r.ProtocolVersion, ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 1 {
		return agui.AGUI1
	}
	return agui.AGUI0
}

// Background reports whether the run goes on after its connection was closed.
func (r *RunRequest) Background() bool {
	var props struct {
		Background json.RawMessage `json:"background"` // raw, as an any could take far more memory
	}
	return json.Unmarshal(r.ForwardedProps, &props) == nil && string(props.Background) == "true"
}

// KeepsEdits reports whether the client's messages are added to the thread even if its list differs from the thread.
func (r *RunRequest) KeepsEdits() bool {
	var props struct {
		Edits json.RawMessage `json:"edits"`
	}
	return json.Unmarshal(r.ForwardedProps, &props) == nil && string(props.Edits) == `"keep"`
}

// DecodeRun reads the body of a request for a run: AG-UI's RunAgentInput of either dialect, with Baton's own members; all are
// optional. It fails with a *runtime.Error of KindInvalid that names the wrong member. StartRun checks the rest.
func DecodeRun(body []byte) (RunRequest, error) {
	r := read(body)
	req, err := r.run()
	if err == nil {
		req.BodyHash = Hash(body)
	}
	return req, err
}

// run reads a request for a run, all but its hash.
func (r *request) run() (RunRequest, error) {
	if r.err != nil {
		return RunRequest{}, r.err
	}
	var in agui.RunAgentInput
	for _, m := range r.all {
		if err := in.Set(m.name, m.value); err != nil {
			return RunRequest{}, wrongMember(err)
		}
	}
	req := RunRequest{
		StartRequest: runtime.StartRequest{
			Agent: r.text("agent"), WorkflowID: r.text("workflowId"),
			ThreadID: r.name("threadId"), RunID: r.name("runId"), ParentRunID: in.ParentRunID,
			Messages: in.Messages, State: r.object("state"), Tools: in.Tools, Context: in.Context,
			ContextItemIDs: r.texts("contextItemIds"), ForwardedProps: in.ForwardedProps, Resume: in.Resume,
			Metadata: r.object("metadata"), Multitask: runtime.Multitask(r.text("multitask")),
			RewindTo: r.text("rewindTo"), Overrides: r.overrides(),
		},
		ProjectID: r.text("projectId"), ProtocolVersion: in.ProtocolVersion,
	}
	r.content(&req)
	if r.err == nil && in.ProtocolVersion != "" && !version.MatchString(in.ProtocolVersion) {
		r.err = refuseMember("protocolVersion", codeRequest, `protocolVersion must be a version, such as "1.0"`)
	}
	if r.err != nil {
		return RunRequest{}, r.err
	}
	return req, nil
}

// version is a version of AG-UI.
var version = regexp.MustCompile(`^\d{1,9}(\.\d{1,9})*([-+][0-9A-Za-z.+-]+)?$`)

// content makes the short form's content the one message of a request.
func (r *request) content(req *RunRequest) {
	var content string
	if !r.into(&content, "content", "a string") {
		return
	}
	if _, both := r.has("messages"); both {
		r.err = Refuse(codeRequest, "Give content or messages, not both")
		return
	}
	if strings.TrimSpace(content) == "" {
		r.err = runtime.ErrEmptyContent
		return
	}
	req.Messages = []agui.Message{{Role: agui.RoleUser, Content: content}}
}

// DecodeToolRun reads the body of a request for a run that is one call of a tool. It fails as DecodeRun does.
func DecodeToolRun(body []byte) (RunRequest, error) {
	r := read(body)
	req := RunRequest{
		StartRequest: runtime.StartRequest{ThreadID: r.name("threadId"), RunID: r.name("runId"), BodyHash: Hash(body)},
		ProjectID:    r.text("projectId"),
	}
	arguments := "{}"
	if given := r.object("arguments"); given != nil {
		arguments = string(given)
	}
	req.Messages = []agui.Message{{Role: agui.RoleUser, Content: arguments}}
	return req, r.err
}

// DecodeRerun reads the body of a request to run a run again. It fails as DecodeRun does. The body may be empty.
func DecodeRerun(body []byte) (runtime.RerunRequest, error) {
	if len(body) == 0 {
		return runtime.RerunRequest{}, nil
	}
	r := read(body)
	how := runtime.RerunRequest{FromNode: r.name("fromNode"), FromCall: r.name("fromCall"), Overrides: r.overrides()}
	if r.err == nil && how.FromNode != "" && how.FromCall != "" {
		r.err = Refuse(codeRequest, "Give fromNode or fromCall, not both")
	}
	return how, r.err
}

// overrides returns the member overrides, nil when it is absent.
func (r *request) overrides() *plugins.ModelOverrides {
	raw := r.object("overrides")
	if raw == nil {
		return nil
	}
	var o plugins.ModelOverrides
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		r.err = refuseMember("overrides", codeRequest, "overrides must be {model, system, parameters: {temperature, topP, maxTokens, seed, stop}}")
		return nil
	}
	return &o
}

// DecodeAppend reads the body of a request to append a message to a run.
func DecodeAppend(body []byte) (runtime.AppendRequest, error) {
	r := read(body)
	return r.message()
}

func (r *request) message() (runtime.AppendRequest, error) {
	req := runtime.AppendRequest{Content: r.text("content"), ContextItemIDs: r.texts("contextItemIds")}
	if r.err != nil {
		return runtime.AppendRequest{}, r.err
	}
	return req, nil
}

// DecodePayload reads the payload of an event, any JSON value. An empty body is null.
func DecodePayload(body []byte) (json.RawMessage, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if !utf8.Valid(body) {
		return nil, Refuse(codeJSON, "The request body is not valid UTF-8")
	}
	if err := Scan(body); err != nil {
		return nil, err
	}
	if !json.Valid(body) {
		return nil, Refuse(codeJSON, "The request body is not valid JSON")
	}
	return bytes.Clone(bytes.TrimSpace(body)), nil
}

// DecodeResume reads the body of a request that answers a run's questions.
func DecodeResume(body []byte) ([]agui.ResumeEntry, error) {
	r := read(body)
	return r.answers()
}

func (r *request) answers() ([]agui.ResumeEntry, error) {
	if r.err != nil {
		return nil, r.err
	}
	var in agui.RunAgentInput
	if entries, ok := r.has("resume"); ok {
		if err := in.Set("resume", entries); err != nil {
			return nil, wrongMember(err)
		}
	}
	if len(in.Resume) == 0 {
		return nil, refuseMember("resume", codeRequest, "resume must hold at least one answer")
	}
	return in.Resume, nil
}

// wrongMember is the error for an error of agui's decoder.
func wrongMember(err error) error {
	return &runtime.Error{
		Kind: runtime.KindInvalid, Code: codeRequest, Detail: strings.Replace(err.Error(), ": ", " ", 1), Place: agui.Place(err),
	}
}

// TicketRequest is a request for a ticket.
type TicketRequest struct {
	Path      string
	ProjectID string // empty for the caller's default
}

// DecodeTicket reads the body of a request for a ticket. It fails as DecodeRun does.
func DecodeTicket(body []byte) (TicketRequest, error) {
	r := read(body)
	req := TicketRequest{Path: r.name("path"), ProjectID: r.text("projectId")}
	if r.err == nil && req.Path == "" {
		r.err = Refuse(codeRequest, "The member path is missing")
	}
	return req, r.err
}
