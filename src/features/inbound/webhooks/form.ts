/** Bodies that are forms. Only presets whose senders send them load this. */

import type { Json } from "../../../core/json.ts";
import { parseJson } from "./body.ts";

/** The fields of a form, for `form` of a preset. Of a field that occurs more than once, the last value. */
export function fieldsOf(text: string): Record<string, string> {
  // fromEntries() makes own fields, also of `__proto__`.
  return Object.fromEntries(new URLSearchParams(text));
}

/** The JSON in the field `payload`, as GitHub and Slack's buttons send it; the fields of a form without one. @throws SyntaxError */
export function payloadOf(text: string): Json {
  const fields = fieldsOf(text);
  return fields.payload === undefined ? fields : parseJson(fields.payload);
}
