// Dependencies from the folder that a script runs in: agui0 or agui1.
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");

export const client = require("@ag-ui/client");
export const rxjs = require("rxjs");
export const newest = require("@ag-ui/core/package.json").version.startsWith("1.");
export const schemas = require(newest ? "@ag-ui/core/schemas" : "@ag-ui/core");

// The client's complaints; there should be none.
export const warnings = [];
console.warn = (...args) => warnings.push(args.join(" "));
