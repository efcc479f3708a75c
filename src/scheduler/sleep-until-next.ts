/** `sleepUntilNext()`: a step of a workflow that sleeps to the next occurrence of a schedule. */

import type { WorkflowStep } from "cloudflare:workers";
import * as z from "zod";
import { failureOf } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { optionsOf, readOptions, text } from "../core/options/option-schemas.ts";
import { checkedName, invalidStep, noteCall, partName } from "../core/steps.ts";
import { nextOccurrence } from "./calendar/occurrences.ts";
import type { Schedule } from "./language/literal.ts";

/** The platform sleeps for a year at most, so longer sleeps are made of several. https://developers.cloudflare.com/workflows/reference/limits/ */
const HOP_MS = 360 * 86_400_000;

export type SleepUntilNextOptions = {
  /**
   * The IANA zone of a schedule that names none.
   * @default none: a schedule with a time of day must name its zone
   */
  timezone?: string;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
};

const OPTIONS = optionsOf<SleepUntilNextOptions>()({
  // The schedule names it where it is invalid.
  timezone: z.unknown().optional(),
  key: text({ empty: true }).optional(),
});

/**
 * Sleeps to the first occurrence of a schedule after now. A step of any Workflow. A restart of the workflow sleeps to the
 * next occurrence after the restart.
 *
 * @param step the step that `run()` of the workflow receives
 * @param name unique within a run, or with a different `key` each time
 * @returns the occurrence in epoch milliseconds, or null without a sleep if the schedule has no more occurrences
 * @throws NonRetryableError for an invalid schedule or option
 * @example
 * await sleepUntilNext(step, "morning", "every weekday at 09:00 in Europe/London");
 */
export function sleepUntilNext<const Text extends string>(
  step: WorkflowStep,
  name: string,
  schedule: Schedule<Text>,
  options: SleepUntilNextOptions = {},
): Promise<number | null> {
  const call = `sleepUntilNext(${preview(name)})`;
  const refuse = (problem: string) => invalidStep("sleepUntilNext", `${call}: ${problem}`);
  return noteCall(step, call, async () => {
    const stepName = checkedName(name);
    const { timezone, key } = readOptions(OPTIONS, options, "options", (_, problem) =>
      refuse(problem),
    );
    const next = (after: number) => {
      try {
        return nextOccurrence(schedule, { after, timezone });
      } catch (error) {
        throw refuse(failureOf(error).message);
      }
    };
    // The steps below would say the same again, hidden in the error of a step.
    next(0);
    return sleep(step, (part) => partName({ kind: "sleep", stepName, key }, part), next);
  });
}

async function sleep(
  step: WorkflowStep,
  nameOf: (part: string) => string,
  next: (after: number) => number | null,
): Promise<number | null> {
  const { from, until } = await step.do(nameOf("next"), async () => {
    const now = Date.now();
    return { from: now, until: next(now) };
  });
  if (until === null) return null;
  for (let hop = 0, at = from; at < until; hop++) {
    at = Math.min(at + HOP_MS, until);
    // Not sleepUntil(), which throws for a time that has passed: so it has in a replay after the sleep.
    const left = at - Date.now();
    if (left > 0) await step.sleep(nameOf(`hop-${hop}`), left);
  }
  return until;
}
