package openapi

import "github.com/google/jsonschema-go/jsonschema"

// operations describes the routes for operators.
func (d *describer) operations(metrics bool) {
	d.area("Operations", "Probes, metrics and this documentation.")
	status := func(value string) *jsonschema.Schema { return object("", must("status", constant(value))) }
	d.add("GET /healthz", operation{
		ID: "health", Security: nobody, Summary: "Liveness probe",
		Answers: answers{"200": reply("The process is running.", status("ok"), "health")},
	})
	d.add("GET /readyz", operation{
		ID: "ready", Security: nobody, Summary: "Readiness probe",
		Answers: answers{
			"200": reply("The server can handle requests.", status("ready"), "ready"),
			"503": refuse("The server is stopping, or its database or a plugin is unhealthy.", "not_ready", "The database or a plugin is not well; the log says more",
				"stopping", "The server is stopping; try again shortly"),
		},
	})
	if metrics { // else they are on the admin listener alone, or nowhere
		d.add("GET /metrics", operation{
			ID: "metrics", Summary: "Get Prometheus metrics",
			Answers: answers{"200": {
				Description: "The metrics in Prometheus's text format.",
				Content:     map[string]media{"text/plain": {Schema: text("")}},
			}},
		})
	}
	d.add("GET /openapi.json", operation{
		ID: "openapi", Security: nobody, Summary: "Get this document",
		Answers: answers{"200": reply("The document.", object("An OpenAPI 3.1 document.")), "304": nothing("The client's copy is current.")},
	})
	page := func(kinds ...string) answers {
		files := make(map[string]media, len(kinds))
		for _, kind := range kinds {
			files[kind] = media{Schema: text("")}
		}
		return answers{"200": {Description: "The file.", Content: files}, "304": nothing("The client's copy is current.")}
	}
	d.add("GET /docs", operation{ID: "docs", Security: nobody, Summary: "Get this document as a web page", Answers: page("text/html")})
	d.add("GET /docs/{file}", operation{
		ID: "docsFile", Security: nobody, Summary: "Get a file of the web page", Answers: page("text/html", "text/css", "text/javascript", "text/plain"),
	})
}
