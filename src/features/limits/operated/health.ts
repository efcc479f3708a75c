/** What the health report says of limits: part of the feature, so that only apps with limits() have it. */

import { withTimeout } from "../../../core/clock.ts";
import { failureOf } from "../../../core/failures.ts";
import { type Health, healthOf } from "../../../engine/operated/part.ts";
import type { StartedTurn } from "../../../submissions/store/limit-waits.ts";
import { MAIN } from "../../../submissions/threads.ts";
import type { LimitControls } from "../controls.ts";
import type { DeclaredLimit, LimitSubject } from "../declared/declarations.ts";
import { LIMIT_RULES, type LimitFacts, type UnkeyedLimit } from "./rules.ts";

/** How long the keepers of a limit may take. An agent has 10 seconds for its report. */
const CALL_MS = 2_000;
/** Keys of a limit that are read, the first ones. */
const MOST_KEYS = 1_000;
/** Limits that are asked for. */
const MOST_LIMITS = 50;
/** Characters of an error. */
const MOST_ERROR = 500;
const MAX_IDS = 10;
/** Turns without a key before a limit counts as one that does not apply: one or two may have a reason. */
const MIN_TURNS = 3;

/** @param own of the submissions of this agent */
export async function limitsHealth(
  limits: readonly Pick<DeclaredLimit, "name">[],
  controls: Pick<LimitControls, "list">,
  own: Pick<LimitFacts, "waits" | "unkeyed">,
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
    ...own,
    states: answers.flatMap((answer) => answer.states ?? []),
    unreachable: answers.flatMap((answer) => (answer.states ? [] : answer)),
  };
  return healthOf(facts, LIMIT_RULES, { counts: {}, judges: [] }, now);
}

/**
 * Limits whose key returned undefined for all of these turns. A key that throws has ended its turn.
 *
 * @param turns newest first
 * @param clientSteps of turns of chat clients, which all have the same key
 */
export function unkeyedLimits(
  limits: readonly Pick<DeclaredLimit, "name" | "keyOf">[],
  agent: Pick<LimitSubject, "agent" | "className">,
  turns: readonly StartedTurn[],
  clientSteps: number,
): UnkeyedLimit[] {
  if (turns.length + clientSteps < MIN_TURNS) return [];
  const oldest = turns.at(-1);
  const hasClients = clientSteps > 0;
  const subjects = [...turns, ...(hasClients ? [{ thread: MAIN, metadata: {} }] : [])];
  return limits.flatMap(({ name: limit, keyOf }) => {
    if (!keyOf || subjects.some((of) => hasKey(keyOf, { ...agent, ...of }))) return [];
    const ids = turns.slice(0, MAX_IDS).map(({ submissionId }) => submissionId);
    return { limit, count: turns.length, since: oldest?.startedAt ?? 0, ids, hasClients };
  });
}

function hasKey(keyOf: NonNullable<DeclaredLimit["keyOf"]>, of: LimitSubject): boolean {
  try {
    return keyOf(of) !== undefined;
  } catch {
    return true;
  }
}
