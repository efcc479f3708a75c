/** What requests to other servers share: secrets of `env`, fields that no message may show, and the beginning of a response. */

import * as z from "zod";
import { shownName } from "../../../core/secrets.ts";
import { withTimeout } from "../../../core/timeout.ts";
import type { FieldProblem } from "./adapter.ts";

export type Problem = Omit<FieldProblem, "field">;

/** A schema from a function. The message shows what the function says in place of the value, which may be a secret. */
export function checked<T>(problemOf: (value: unknown) => Problem | undefined): z.ZodType<T, T> {
  return z.custom<T>().check((ctx) => {
    const problem = problemOf(ctx.value);
    if (!problem) return;
    const { given, expected: message } = problem;
    ctx.issues.push({ code: "custom", input: ctx.value, message, params: { given } });
  });
}

/** Methods of other bindings that also have `get`. */
const FOREIGN_METHODS = ["put", "list", "idFromName", "createBatch", "fetch", "send"] as const;

/** Whether this is a string, or a binding to a Secrets Store. */
function isSecret(env: object, name: string): boolean {
  const value: unknown = Object.hasOwn(env, name) ? Reflect.get(env, name) : undefined;
  if (typeof value !== "object" || value === null) return typeof value === "string";
  const has = (method: string) => typeof Reflect.get(value, method) === "function";
  // A binding to another Worker answers to every name.
  return has("get") && !FOREIGN_METHODS.some(has);
}

/** The value of a secret. @throws what the Secrets Store throws */
export async function readSecret(binding: unknown): Promise<unknown> {
  const { get } = Object(binding) as Partial<SecretsStoreSecret>;
  return typeof get === "function" ? get.call(binding) : binding;
}

/** The name of one secret in `env`. The value is not shown: the secret itself may stand there. */
export const SECRET_NAME = checked<string>((name) =>
  typeof name === "string" && /^[A-Za-z_]\w{0,99}$/.test(name)
    ? undefined
    : {
        given: "(not shown)",
        expected: 'expected the name of a secret in env, such as "BOT_TOKEN", and never the secret',
      },
);

/** What is wrong with the name of a secret in this field of a destination. */
export function problemOfSecret(
  env: object,
  field: string,
  name: string,
): FieldProblem | undefined {
  if (isSecret(env, name)) return undefined;
  const shown = shownName(name);
  const given = shown ?? "(not shown, because it may be the secret itself)";
  const expected = `expected the name of a secret of this Worker. Set it: wrangler secret put ${shown ?? "<its name>"}`;
  return { field, given, expected };
}

/** Characters of a response's body that an error keeps. */
const MAX_EXCERPT = 1_024;
/** The time limit for reading that body, after the status. */
const EXCERPT_MS = 1_000;

/** The beginning of a response's body on one line, or as much as arrives in time. The rest is never read. */
export async function excerptOf({ body }: Response): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  const read = async () => {
    while (text.length < MAX_EXCERPT) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
    }
  };
  // A body that breaks off, hangs or is aborted changes nothing: the status decides.
  await withTimeout(read(), EXCERPT_MS).catch(() => {});
  void reader.cancel().catch(() => {});
  return text
    .slice(0, MAX_EXCERPT)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}
