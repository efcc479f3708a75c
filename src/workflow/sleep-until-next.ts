/** `step.sleepUntilNext()`: sleeps to the next occurrence of a schedule. */

import * as z from "zod";
import { failureOf } from "../core/failures.ts";
import { optionsOf } from "../core/options/option-schemas.ts";
import { nextOccurrence } from "../scheduler/calendar/occurrences.ts";
import { partName } from "./names.ts";
import { KEY, readStep, refusalOf } from "./options.ts";
import type { StepCall } from "./step-call.ts";

/** The platform sleeps for a year at most, so longer sleeps are made of several. https://developers.cloudflare.com/workflows/reference/limits/ */
const HOP_MS = 360 * 86_400_000;

export type SleepUntilNextOptions = {
  /**
   * The IANA zone of a schedule that names none.
   * @default none: what reads a clock on a wall has to name its zone
   */
  timezone?: string;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
};

const OPTIONS = optionsOf<SleepUntilNextOptions>()({
  // The schedule names it where it is invalid.
  timezone: z.unknown().optional(),
  key: KEY,
});

/** @returns the occurrence in epoch milliseconds, or null without a sleep where there is none any more */
export async function sleepUntilNext(
  { step, name }: Pick<StepCall, "step" | "name">,
  schedule: string,
  options: SleepUntilNextOptions,
): Promise<number | null> {
  const refuse = refusalOf("sleepUntilNext", name);
  const { timezone, key } = readStep(OPTIONS, options, refuse);
  const next = (after: number) => {
    try {
      return nextOccurrence(schedule, { after, timezone });
    } catch (error) {
      throw refuse(failureOf(error).message);
    }
  };
  const identity = { kind: "sleep", stepName: name, key } as const;
  // The steps below would say the same again, hidden in the error of a step.
  next(0);
  const { from, until } = await step.do(partName(identity, "next"), async () => {
    const now = Date.now();
    return { from: now, until: next(now) };
  });
  if (until === null) return null;
  for (let hop = 0, at = from; at < until; hop++) {
    at = Math.min(at + HOP_MS, until);
    // Not sleepUntil(), which throws for a time that has passed: so it has in a replay after the sleep.
    const left = at - Date.now();
    if (left > 0) await step.sleep(partName(identity, `hop-${hop}`), left);
  }
  return until;
}
