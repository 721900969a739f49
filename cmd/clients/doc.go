// Package clients holds the tests that run real clients, unmodified, against the real binary: AG-UI's client and
// schemas in both dialects (the scripts in agui, run in agui0 and agui1), CopilotKit, the official MCP client, and
// a browser. Events that no built-in plugin emits come from testbaton, the same program with agents that emit
// what they are told to, for instance the scenarios of agui/events.json. What each client depends on stands in
// its package-lock.json and is installed by .ci/setup. The scripts assert by themselves; a test here starts the
// server, runs a script, and fails with what it printed.
//
// The other way round, a Baton uses what others have made: an agent of Mastra, another Baton, and the public test server
// of MCP.
package clients
