/** The options of `codemode()`. */

import * as z from "zod";
import type { Duration } from "../core/duration.ts";
import type { Json } from "../core/json.ts";
import { flag, oneOf, optionsOf, text } from "../core/option-schemas.ts";
import type { AnySchema, OutputOf } from "../core/schema.ts";
import type { CodemodeRequest } from "../waits/kinds/codemode/types.ts";
import { KEY, readStep, refusalOf, TIMEOUT } from "../workflow/options.ts";

/** Codemode takes a million characters, of which a comment that names the step takes some. */
const MOST_CODE_BYTES = 999_000;

export type CodemodeOptions<Schema extends AnySchema | undefined = undefined> = {
  /**
   * The code, in the form that a model writes it for Code Mode: `async () => { ... }`. Its connectors are those of the
   * agent's runtime. What pauses for an approval is run again from the start, and finds its calls done: all else has to be
   * deterministic, or in `codemode.step()`.
   */
  code: string;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
  /**
   * How long to wait for its end, approvals included, e.g. `"3 days"` or milliseconds, at most 365 days.
   * @default "24 hours"
   */
  timeout?: Duration;
  /**
   * What the code returns, as a schema of any library that follows Standard Schema.
   * @default none: any JSON, or undefined
   */
  output?: Schema;
  /**
   * Whether the calls of the code are undone when the workflow fails later, or is terminated with `rollback: true`: by the
   * `revert` of their tools, the latest first, which may come again after a crash and so has to be idempotent. Also those of an execution that failed. Only what its runtime still has a
   * record of: `maxExecutions`, by default the newest 50.
   * @default false
   */
  rollback?: boolean;
  /**
   * What becomes of the calls before the one that was rejected: `"keep"` leaves them, `"rollback"` undoes them at once.
   * @default "keep"
   */
  onReject?: "keep" | "rollback";
};

/** What `codemode()` returns. */
export type CodemodeResult<Schema extends AnySchema | undefined = undefined> = {
  /** In the agent's Code Mode runtime. */
  readonly executionId: string;
  /** What the code returned. */
  readonly output: Schema extends AnySchema ? OutputOf<Schema> : Json | undefined;
  /** What the code has logged, the last 100,000 characters. */
  readonly logs?: readonly string[];
};

const OPTIONS = optionsOf<CodemodeOptions<AnySchema | undefined>>()({
  code: text({ maxBytes: MOST_CODE_BYTES, remedy: "Let it read its data by a tool" }).refine(
    (code) => code.trim() !== "",
    { error: "expected a non-empty string" },
  ),
  key: KEY,
  timeout: TIMEOUT,
  output: z.unknown().optional(),
  rollback: flag().default(false),
  onReject: oneOf(["keep", "rollback"]).default("keep"),
});

/** @throws NonRetryableError for an invalid option */
export function checkedCodemode(
  name: string,
  options: CodemodeOptions<AnySchema | undefined>,
): { request: CodemodeRequest; timeoutMs: number } {
  const read = readStep(OPTIONS, options, refusalOf("codemode", name));
  const { code, onReject, timeout: timeoutMs } = read;
  return { request: { code, onReject }, timeoutMs };
}
