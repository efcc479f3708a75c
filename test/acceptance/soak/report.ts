/** Prints the results of the soak: the amount of work, the findings, and their details. */

import type { Failures } from "./client.ts";
import { tell } from "./driver.ts";
import { type Evidence, type Finding, KINDS } from "./judge/evidence.ts";
import type { Load } from "./load.ts";
import { CUT_OFF } from "./words.ts";

export type Course = {
  readonly seed: number;
  readonly kills: number;
  readonly downMs: number;
  readonly openAtLast: number;
  readonly settleMs: number;
  /** Webhooks that the receiver answered 503. */
  readonly refusals: number;
  readonly asked: Load["asked"];
  readonly failures: Failures;
  readonly log: string;
};

/** The most findings of one kind to print. */
const MOST_SHOWN = 20;

/** Returns whether there are no findings. */
export function report(findings: readonly Finding[], evidence: Evidence, course: Course): boolean {
  tellOfLoad(evidence, course);
  const counts = tell(findings, KINDS);
  for (const forged of evidence.records.forged) console.error(`refused as not genuine: ${forged}`);
  const isFine = findings.length === 0 && evidence.records.forged.length === 0;
  if (!isFine) tellOfTrouble(course);
  console.log(`seed ${course.seed}: ${counts}`);
  return isFine;
}

function tellOfLoad({ entries, records, looks, followers }: Evidence, course: Course): void {
  const { deliveries, effects, steps, outcomes } = records;
  const again = (times: Iterable<number>) => [...times].reduce((sum, time) => sum + time - 1, 0);
  const reports = [...outcomes.values()].map((of) =>
    [...of.values()].reduce((sum, times) => sum + times, 0),
  );
  const { kills, downMs, openAtLast, settleMs, refusals, asked } = course;
  const turns = looks.flatMap(({ submissions }) => submissions);
  const runs = looks.flatMap((look) => look.runs);
  const cutOff = [...outcomes.values()].filter((of) => [...of.keys()].join().includes(CUT_OFF));
  const verbs = [...asked].sort(([one], [other]) => (one < other ? -1 : 1));
  console.log(
    [
      `${kills} kills, ${(downMs / Math.max(kills, 1) / 1_000).toFixed(1)} s down each; ` +
        `${openAtLast} open at the last, settled in ${(settleMs / 1_000).toFixed(0)} s`,
      `${entries.length} requests: ${verbs.map(([verb, times]) => `${verb} ${times}`).join(", ")}`,
      `${turns.length} turns with those of workflows and schedules, ` +
        `${turns.filter(({ attempts }) => attempts > 1).length} of them in more than one attempt; ` +
        `${cutOff.length} workflows with a child that was interrupted`,
      `${runs.length} runs of schedules, ${deliveries.size} events, ${effects.size} effects, ` +
        `${steps.length} steps of durable tools, ${followers.length} followers`,
      `came again, as is allowed: ${again([...deliveries.values()].map(({ times }) => times))} events ` +
        `(${refusals} were refused), ${again(reports)} outcomes`,
    ].join("\n"),
  );
}

function tellOfTrouble({ failures, log }: Course): void {
  const calls = [...failures].sort(([, one], [, other]) => other - one).slice(0, MOST_SHOWN);
  for (const [failure, times] of calls) console.error(`answered ${times} times: ${failure}`);
  const lines = new Map<string, number>();
  for (const line of log.split("\n").filter((text) => /error|perdure/i.test(text))) {
    const known = line.replace(/[0-9a-f-]{16,}|\d+/g, "#").slice(0, 300);
    lines.set(known, (lines.get(known) ?? 0) + 1);
  }
  const most = [...lines].sort(([, one], [, other]) => other - one).slice(0, MOST_SHOWN);
  for (const [line, times] of most) console.error(`logged ${times} times: ${line}`);
}
