/** Schema is the part of JSON Schema that forms are made of. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
}

export type Shape = "string" | "number" | "boolean" | "choice" | "object" | "json";

/** isSchema reports whether a value is a schema that says something. */
export function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** shape is the control that a schema is shown with. What no control is for is written as JSON. */
export function shape(schema: Schema): Shape {
  if (schema.enum) return "choice";
  const types = [schema.type ?? (schema.properties ? "object" : "")].flat().filter((t) => t !== "null");
  if (types.length !== 1 || schema.anyOf || schema.oneOf) return "json";
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
    default:
      return "json";
  }
}

/** initial is what a form begins with: defaults, and nothing that somebody has not said. */
export function initial(schema: Schema): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  switch (shape(schema)) {
    case "boolean":
      return false;
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {})
          .map(([name, member]) => [name, initial(member)] as const)
          .filter(([, value]) => value !== undefined),
      );
    default:
      return undefined;
  }
}

/** wrong is what is wrong with a value, by the path of its member; nothing when it can be sent. */
export function wrong(schema: Schema, value: unknown, required: boolean, path = ""): Record<string, string> {
  if (value === undefined || value === "") return required ? { [path]: "This is needed." } : {};
  switch (shape(schema)) {
    case "object": {
      const v = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
      return Object.entries(schema.properties ?? {}).reduce(
        (all, [name, member]) => ({ ...all, ...wrong(member, v[name], schema.required?.includes(name) ?? false, `${path}/${name}`) }),
        {} as Record<string, string>,
      );
    }
    case "number":
      return number(schema, value, path);
    case "string":
      return string(schema, String(value), path);
    default:
      return {};
  }
}

function number(schema: Schema, value: unknown, path: string): Record<string, string> {
  if (typeof value !== "number" || Number.isNaN(value)) return { [path]: "This must be a number." };
  if ([schema.type].flat().includes("integer") && !Number.isInteger(value)) return { [path]: "This must be a whole number." };
  if (schema.minimum !== undefined && value < schema.minimum) return { [path]: `At least ${schema.minimum}.` };
  if (schema.maximum !== undefined && value > schema.maximum) return { [path]: `At most ${schema.maximum}.` };
  return {};
}

function string(schema: Schema, value: string, path: string): Record<string, string> {
  if (schema.minLength !== undefined && value.length < schema.minLength) return { [path]: `At least ${schema.minLength} characters.` };
  if (schema.maxLength !== undefined && value.length > schema.maxLength) return { [path]: `At most ${schema.maxLength} characters.` };
  return {};
}
