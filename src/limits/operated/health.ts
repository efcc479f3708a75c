/** What the health report says of limits: part of the feature, so that only apps with limits() have it. */

import { failureOf } from "../../core/failures.ts";
import { type Health, healthOf } from "../../core/operated/part.ts";
import { withTimeout } from "../../core/timeout.ts";
import type { LimitWaits } from "../../kernel/submissions/internal.ts";
import type { LimitControls } from "../controls.ts";
import type { DeclaredLimit } from "../declared/declarations.ts";
import { LIMIT_RULES, type LimitFacts } from "./rules.ts";

/** How long the keepers of a limit may take. An agent has 10 seconds for its report. */
const CALL_MS = 2_000;
/** Keys of a limit that are read, the first ones. */
const MOST_KEYS = 1_000;
/** Limits that are asked for. */
const MOST_LIMITS = 50;
/** Characters of an error. */
const MOST_ERROR = 500;

/** @param waits of the submissions of this agent */
export async function limitsHealth(
  limits: readonly Pick<DeclaredLimit, "name">[],
  controls: Pick<LimitControls, "list">,
  waits: readonly LimitWaits[],
  now: number,
): Promise<Health<ReturnType<(typeof LIMIT_RULES)[number]>[number]>> {
  const asked = limits.slice(0, MOST_LIMITS).map(async ({ name }) => {
    try {
      const listed = controls.list({ name, limit: MOST_KEYS });
      return { states: (await withTimeout(listed, CALL_MS)).items };
    } catch (error) {
      return { limit: name, error: failureOf(error).message.slice(0, MOST_ERROR) };
    }
  });
  const answers = await Promise.all(asked);
  const facts: LimitFacts = {
    waits,
    states: answers.flatMap((answer) => answer.states ?? []),
    unreachable: answers.flatMap((answer) => (answer.states ? [] : answer)),
  };
  return healthOf(facts, LIMIT_RULES, { counts: {}, judges: [] }, now);
}
