/** Whether a value matches a JSON Schema, as far as one that came over RPC or out of a row can be read back. Pure. */

import { fromJSONSchema, type z } from "zod";

/**
 * What of a value does not match a JSON Schema, one line for each; none where it matches. A schema that cannot be read
 * back refuses nothing: it is left to the workflow, which has the original.
 *
 * @param name what the value itself is called in a line
 */
export function mismatchesOf(name: string, value: unknown, schema: object): string[] {
  const checked = parserOf(schema)?.safeParse(value);
  if (!checked || checked.success) return [];
  return checked.error.issues.map((issue) => lineOf(name, issue, []));
}

type Issue = z.core.$ZodIssue;

/** Of a union, what is wrong by each of its members: that none matches says nothing to whoever has to put it right. */
function lineOf(name: string, issue: Issue, outer: readonly PropertyKey[]): string {
  const path = [...outer, ...issue.path];
  const where = path.map(String).join(".") || name;
  if (issue.code !== "invalid_union" || issue.errors.length === 0) {
    return `${where}: ${issue.message}`;
  }
  const members = issue.errors.map((issues) =>
    issues.map((inner) => lineOf(name, inner, path)).join(", "),
  );
  return `${where}: matches none of ${members.length} forms (${members.join(" | ")})`;
}

function parserOf(schema: object) {
  try {
    return fromJSONSchema(readable(schema) as Parameters<typeof fromJSONSchema>[0]);
  } catch {
    return undefined;
  }
}

/** Without patterns that only a Unicode expression reads right, which Zod does not make of them: they are left to the workflow. */
function readable(schema: object): unknown {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === "pattern" && typeof value === "string" && UNICODE.test(value) ? undefined : value,
  );
}

/** `\p{...}`, `\u{...}`, and any character beyond ASCII, which may be two units. */
const UNICODE = /\\[pPu]\{|[^\0-\x7f]/;
