// Package clients contains tests that run real, unmodified clients against the real binary: AG-UI's client and schemas in both
// dialects (the scripts in agui, run in agui0 and agui1), CopilotKit, the official MCP client, and a browser. Events that no built-in
// plugin emits come from testbaton, the same program with scripted agents, for instance for the scenarios in agui/events.json. Each
// client's package-lock.json lists its dependencies, which .ci/setup installs. The scripts contain the assertions: a test starts the
// server, runs a script, and fails with the script's output.
//
// Some tests also run with a cluster of three servers behind HAProxy: with BALANCED set all do, of which some are not fit for that yet.
//
// Other tests make Baton the client: of an agent of Mastra, of another Baton, of public MCP servers, and of aimock, a fake of the
// providers of models.
package clients
