SwaggerUIBundle({
	url: "/openapi.json",
	dom_id: "#api",
	validatorUrl: null, // else a badge is fetched from swagger.io
	deepLinking: true,
	filter: true,
	showExtensions: true, // x-websocket
	docExpansion: "list",
	defaultModelRendering: "example",
	defaultModelsExpandDepth: 0,
	displayRequestDuration: true,
	requestSnippetsEnabled: true,
	syntaxHighlight: {theme: "idea"},
});
