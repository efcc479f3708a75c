/** What can be wrong with the alarm, which starts the agent when there is something to do. */

import { at } from "../../engine/operated/text.ts";
import type { AlarmState } from "../../engine/wake.ts";
import type { Finding } from "../protocol.ts";

/** Lifecycle sets the alarm up to 30 seconds ahead while it runs jobs; twice that is a fault. */
const TOLERANCE_MS = 60_000;

type AlarmFacts = {
  /** Undefined for a sub-agent: its root agent has the alarm. */
  readonly wake: AlarmState | undefined;
  /** When the oldest work that needs a wake was accepted; undefined: there is none. */
  readonly workSince: number | undefined;
  /** Whether no module has anything to do, now or later. */
  readonly isIdle: boolean;
};

type Rule = (facts: AlarmFacts, now: number) => Finding[];

const workWithoutAlarm: Rule = ({ wake, workSince }, now) => {
  if (!wake) return [];
  const { alarmAt, jobAt } = wake;
  const isForgotten = jobAt === null && workSince !== undefined && now - workSince >= TOLERANCE_MS;
  const isLost =
    jobAt !== null &&
    (alarmAt === null ||
      now - alarmAt >= TOLERANCE_MS ||
      alarmAt - Math.max(jobAt, now) >= TOLERANCE_MS);
  if (!isForgotten && !isLost) return [];
  const since = jobAt ?? workSince ?? now;
  const what = isLost
    ? `Work is due at ${at(since, now)}, and ${alarmAt === null ? "no alarm is set" : `the alarm is set for ${at(alarmAt, now)}`}`
    : `Work waits since ${at(since, now)}, and no wake is set`;
  return [
    {
      code: "work-without-alarm",
      severity: "error",
      title: `${what}: the agent may not start by itself.`,
      evidence: { count: 1, since, ids: [] },
      cause: "The platform drops an alarm after six failures in a row, failed starts included.",
      fix: {
        text: "Deploy the Worker again and call the agent: each start of it sets a lost alarm again.",
      },
      link: { view: "overview" },
    },
  ];
};

/** It costs a start of the agent, which finds nothing, and clears it. */
const alarmWithoutWork: Rule = ({ wake, isIdle }, now) => {
  const first = wake?.ownJobAt;
  // Within that time, what has just ended clears its own.
  if (!isIdle || first === undefined || first === null || first < now + TOLERANCE_MS) return [];
  return [
    {
      code: "alarm-without-work",
      severity: "info",
      title: `The alarm is set for ${at(first, now)}, and nothing is left to do then.`,
      evidence: { count: 1, ids: [] },
      cause: "What it was set for has ended, was paused or was removed since.",
      fix: { text: "Nothing: the agent starts once more, and clears it." },
      link: { view: "overview" },
    },
  ];
};

export const ALARM_RULES: readonly Rule[] = [workWithoutAlarm, alarmWithoutWork];
