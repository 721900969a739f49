// Swagger UI parses the whole document again for each operation that is opened. This plugin resolves only the references of that operation.
function LazyReferences() {
	let known, whole;
	const requestResolvedSubtree = (_, { specSelectors, specActions }) => (path) => {
		if (known !== specSelectors.specJson()) [known, whole] = [specSelectors.specJson(), specSelectors.specJson().toJS()];
		const found = at(whole, path);
		if (found !== undefined) specActions.updateResolvedSubtree(path, resolved(whole, found, []));
	};
	return { statePlugins: { spec: { wrapActions: { requestResolvedSubtree } } } };
}

// resolved replaces the references in a value, except those to a schema in itself.
function resolved(whole, value, within) {
	if (Array.isArray(value)) return value.map((v) => resolved(whole, v, within));
	if (value === null || typeof value !== "object") return value;
	const { $ref, ...rest } = value;
	if (typeof $ref === "string" && within.includes($ref)) return value;
	const own = Object.fromEntries(Object.entries(rest).map(([k, v]) => [k, resolved(whole, v, within)]));
	return typeof $ref === "string" ? { ...resolved(whole, at(whole, $ref.slice(2).split("/")), [...within, $ref]), ...own, $$ref: $ref } : own;
}

function at(value, path) {
	return path.reduce((v, name) => v?.[name], value);
}

// Swagger UI gives its whole state to each component, and so renders all of them again with each change. This plugin renders an operation
// while it is open, and the others by their own properties.
function FewerRenders({ React }) {
	const shared = ["op", "specPath", "state"]; // new objects each time
	const OperationContainer = (Component) => class extends Component {
		shouldComponentUpdate(next) {
			const { props } = this;
			return props.isShown || next.isShown || Object.keys(next).some((name) => props[name] !== next[name] && !shared.includes(name));
		}
	};
	const withoutState = (Component) => class extends React.Component {
		mapStateToProps() {
			return {};
		}
		render() {
			return React.createElement(Component, this.props);
		}
	};
	const [Markdown, JumpToPath, CopyToClipboardBtn, authorizeOperationBtn] = Array(4).fill(withoutState);
	return { wrapComponents: { OperationContainer, Markdown, JumpToPath, CopyToClipboardBtn, authorizeOperationBtn } };
}

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
	plugins: [LazyReferences, FewerRenders],
});
