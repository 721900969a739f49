package openapi

import "github.com/google/jsonschema-go/jsonschema"

// The objects of OpenAPI 3.1 that the document uses.
type (
	document struct {
		OpenAPI    string                        `json:"openapi"`
		Info       info                          `json:"info"`
		Servers    []server                      `json:"servers"`
		Security   []security                    `json:"security"`
		Tags       []tag                         `json:"tags"`
		Paths      ordered[*ordered[*operation]] `json:"paths"` // by path and method, in lower case
		Components components                    `json:"components"`
	}
	info struct {
		Title       string  `json:"title"`
		Version     string  `json:"version"`
		Summary     string  `json:"summary"`
		Description string  `json:"description"`
		License     license `json:"license"`
	}
	license struct {
		Name       string `json:"name"`
		Identifier string `json:"identifier"`
	}
	server struct {
		URL         string `json:"url"`
		Description string `json:"description"`
	}
	tag struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	components struct {
		Schemas         map[string]*jsonschema.Schema `json:"schemas"`
		Responses       map[string]*answer            `json:"responses"`
		SecuritySchemes map[string]securityScheme     `json:"securitySchemes"`
	}
	security       map[string][]string // the required scopes by scheme; empty for none
	securityScheme struct {
		Type        string `json:"type"`
		Scheme      string `json:"scheme,omitempty"`
		In          string `json:"in,omitempty"`
		Name        string `json:"name,omitempty"`
		Description string `json:"description"`
	}
	operation struct {
		ID          string      `json:"operationId"`
		Tags        []string    `json:"tags"`
		Summary     string      `json:"summary"`
		Description string      `json:"description,omitempty"`
		Parameters  []parameter `json:"parameters,omitempty"`
		Body        *body       `json:"requestBody,omitempty"`
		Answers     answers     `json:"responses"`
		Security    *[]security `json:"security,omitempty"` // nil for the document's
		Socket      *socket     `json:"x-websocket,omitempty"`
	}
	parameter struct {
		Name        string             `json:"name"`
		In          string             `json:"in"`
		Description string             `json:"description"`
		Required    bool               `json:"required,omitempty"`
		Schema      *jsonschema.Schema `json:"schema"`
		Example     any                `json:"example,omitempty"`
	}
	body struct {
		Description string           `json:"description,omitempty"`
		Required    bool             `json:"required,omitempty"`
		Content     map[string]media `json:"content"`
	}
	answers map[string]*answer // by status
	answer  struct {
		Ref         string            `json:"$ref,omitempty"`
		Description string            `json:"description,omitempty"`
		Headers     map[string]header `json:"headers,omitempty"`
		Content     map[string]media  `json:"content,omitempty"`
		Stream      *media            `json:"x-event-stream,omitempty"` // the stream that another status's JSON replaces
	}
	header struct {
		Description string             `json:"description"`
		Schema      *jsonschema.Schema `json:"schema"`
	}
	media struct {
		Schema   *jsonschema.Schema `json:"schema"`
		Example  any                `json:"example,omitempty"`
		Examples *ordered[example]  `json:"examples,omitempty"`
	}
	example struct {
		Value any `json:"value"`
	}

	// socket describes a WebSocket, for which OpenAPI has no terms.
	socket struct {
		Subprotocols []string           `json:"subprotocols,omitempty"`
		Send         *jsonschema.Schema `json:"send,omitempty"`    // a text frame of the client
		Receive      *jsonschema.Schema `json:"receive,omitempty"` // a text frame of the server
		Closes       map[string]string  `json:"closes"`            // the meanings of its close codes
	}
)
