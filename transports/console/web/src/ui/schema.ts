import { isDigits } from "../api/json";

/** Schema is the part of JSON Schema that forms support. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  names?: string[]; // labels of the enum's values, taken from constants with titles; not part of JSON Schema
  const?: unknown;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema | boolean;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  format?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
}

export type Shape = "const" | "string" | "number" | "boolean" | "choice" | "choices" | "object" | "list" | "variants" | "json";

/** Problems are the errors of a value, by the paths of its members. */
export type Problems = Record<string, string>;

/** isSchema reports whether a value is a schema with content. */
export function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

const deep = 24; // longest chain of references

/** plain resolves a schema's references in root, merges allOf and removes alternatives with null. An invalid schema accepts anything. */
export function plain(schema: Schema, root: Schema, depth = 0): Schema {
  if (depth > deep || !isSchema(schema)) return {};
  const on = (s: Schema) => plain(s, root, depth + 1);
  if (schema.$ref !== undefined) {
    const { $ref, ...rest } = schema;
    return on({ ...referred(root, $ref), ...rest });
  }
  if (schema.allOf) {
    const { allOf, ...rest } = schema;
    return on([...allOf.map(on), rest].reduce(merged, {}));
  }
  const options = (schema.oneOf ?? schema.anyOf)?.map(on).filter((s) => s.type !== "null");
  if (!options) return schema;
  const { oneOf: _, anyOf: __, ...rest } = schema;
  if (options.length === 1) return on({ ...options[0], ...rest });
  if (options.every((s) => s.const !== undefined)) return { ...rest, enum: options.map((s) => s.const), names: options.map((s) => s.title ?? String(s.const)) };
  return { ...rest, oneOf: options };
}

function referred(root: Schema, ref: string): Schema {
  if (!ref.startsWith("#")) return {};
  let at: unknown = root;
  for (const name of ref.slice(1).split("/").filter(Boolean)) {
    at = (at as Record<string, unknown> | undefined)?.[decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return isSchema(at) ? at : {};
}

function merged(a: Schema, b: Schema): Schema {
  return {
    ...a, ...b,
    ...((a.properties || b.properties) && { properties: { ...a.properties, ...b.properties } }),
    ...((a.required || b.required) && { required: [...(a.required ?? []), ...(b.required ?? [])] }),
  };
}

/** shape returns the control for a plain schema. Schemas without a control are edited as JSON. */
export function shape(schema: Schema): Shape {
  if (schema.const !== undefined) return "const";
  if (schema.enum) return "choice";
  if (schema.oneOf) return "variants";
  const types = [schema.type ?? (schema.properties ? "object" : "")].flat().filter((t) => t !== "null");
  if (types.length !== 1) return "json";
  switch (types[0]) {
    case "string":
      return "string";
    case "number":
    case "integer":
      return "number";
    case "boolean":
      return "boolean";
    case "object":
      return schema.properties ? "object" : "json";
    case "array":
      if (!isSchema(schema.items)) return "json";
      return schema.uniqueItems && schema.items.enum ? "choices" : "list";
    default:
      return "json";
  }
}

/** initial returns the initial value of a form: defaults, and empty values for required parts. */
export function initial(schema: Schema, root = schema, required = true): unknown {
  const s = plain(schema, root);
  if (s.default !== undefined) return s.default;
  switch (shape(s)) {
    case "const":
      return s.const;
    case "boolean":
      return required ? false : undefined;
    case "variants":
      return required && s.oneOf?.[0] ? initial(s.oneOf[0], root) : undefined;
    case "choices":
    case "list":
      return required ? Array.from({ length: s.minItems ?? 0 }, () => initial(s.items as Schema, root)) : undefined;
    case "object":
      if (!required) return undefined;
      return Object.fromEntries(
        Object.entries(s.properties ?? {})
          .map(([name, member]) => [name, initial(member, root, s.required?.includes(name) ?? false)] as const)
          .filter(([, value]) => value !== undefined),
      );
    default:
      return undefined;
  }
}

/** wrong returns the errors of a value, empty if it can be sent. */
export function wrong(schema: Schema, value: unknown, required: boolean, path = "", root = schema): Problems {
  try {
    return problems(schema, value, required, path, root);
  } catch {
    return {}; // an invalid schema: the server decides
  }
}

function problems(schema: Schema, value: unknown, required: boolean, path: string, root: Schema): Problems {
  const s = plain(schema, root);
  if (value === undefined || value === "") return required ? { [path]: "Required." } : {};
  switch (shape(s)) {
    case "object": {
      const v = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
      return Object.entries(s.properties ?? {}).reduce<Problems>(
        (all, [name, member]) => ({ ...all, ...wrong(member, v[name], s.required?.includes(name) ?? false, `${path}/${name}`, root) }),
        {},
      );
    }
    case "variants":
      return wrong(s.oneOf?.[variantOf(s, value, root)] ?? {}, value, required, path, root);
    case "choices":
    case "list":
      return list(s, value, path, root);
    case "number":
      return number(s, value, path);
    case "string":
      return string(s, String(value), path);
    default:
      return {};
  }
}

/** variantOf returns the most likely variant of a plain schema for a value. */
export function variantOf(schema: Schema, value: unknown, root: Schema): number {
  const marks = (schema.oneOf ?? []).map((s) => (kinOf(plain(s, root), value, root) ? Object.keys(wrong(s, value, true, "", root)).length : Infinity));
  return Math.max(0, marks.indexOf(Math.min(...marks)));
}

// Whether a value has a schema's type and constants.
function kinOf(s: Schema, value: unknown, root: Schema): boolean {
  const members = typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  switch (shape(s)) {
    case "const":
      return value === s.const;
    case "object":
      return members !== undefined && Object.entries(s.properties ?? {}).every(([name, m]) => {
        const { const: constant } = plain(m, root);
        return constant === undefined || members[name] === constant;
      });
    case "choices":
    case "list":
      return Array.isArray(value);
    case "choice":
      return s.enum?.includes(value) ?? false;
    case "json":
    case "variants":
      return true;
    default:
      return value === undefined || typeof (isDigits(value) ? 0 : value) === shape(s);
  }
}

function list(s: Schema, value: unknown, path: string, root: Schema): Problems {
  const items = Array.isArray(value) ? value : [];
  const found = items.reduce<Problems>((all, item, i) => ({ ...all, ...wrong(s.items as Schema, item, true, `${path}/${i}`, root) }), {});
  if (s.minItems !== undefined && items.length < s.minItems) found[path] = `At least ${s.minItems}.`;
  if (s.maxItems !== undefined && items.length > s.maxItems) found[path] = `At most ${s.maxItems}.`;
  return found;
}

function number(s: Schema, given: unknown, path: string): Problems {
  const value = isDigits(given) ? Number(given.rawJSON) : given;
  if (typeof value !== "number" || Number.isNaN(value)) return { [path]: "This must be a number." };
  if ([s.type].flat().includes("integer") && !Number.isInteger(value)) return { [path]: "This must be a whole number." };
  if (s.minimum !== undefined && value < s.minimum) return { [path]: `At least ${s.minimum}.` };
  if (s.maximum !== undefined && value > s.maximum) return { [path]: `At most ${s.maximum}.` };
  if (s.exclusiveMinimum !== undefined && value <= s.exclusiveMinimum) return { [path]: `More than ${s.exclusiveMinimum}.` };
  if (s.exclusiveMaximum !== undefined && value >= s.exclusiveMaximum) return { [path]: `Less than ${s.exclusiveMaximum}.` };
  if (s.multipleOf !== undefined && Math.abs(value / s.multipleOf - Math.round(value / s.multipleOf)) > 1e-9) return { [path]: `A multiple of ${s.multipleOf}.` };
  return {};
}

function string(s: Schema, value: string, path: string): Problems {
  const length = [...value].length;
  if (s.minLength !== undefined && length < s.minLength) return { [path]: `At least ${s.minLength} characters.` };
  if (s.maxLength !== undefined && length > s.maxLength) return { [path]: `At most ${s.maxLength} characters.` };
  if (s.pattern !== undefined && !matches(s.pattern, value)) return { [path]: `Must match ${s.pattern}` };
  return {};
}

// A pattern that this browser does not support accepts everything: the server decides.
function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}
