/** The options that decide a task's times, as its row stores them: after an edit, overdue occurrences are still known. */

import { parsedJson } from "../../core/json.ts";
import { digest } from "../../core/text.ts";
import { parseSchedule } from "../language/parse.ts";
import type { ParsedSchedule } from "../rule.ts";

/** Longer ones are stored as a digest: then one overdue occurrence survives an edit. */
const MAX_LENGTH = 2_000;

export type Times = {
  readonly schedule: ParsedSchedule;
  readonly startAt: number;
  readonly endAt: number;
};

export function fingerprintOf({ schedule, startAt, endAt }: Times): string {
  const { text, timezone, except } = schedule;
  const times = JSON.stringify([text, timezone, String(startAt), String(endAt), except]);
  return times.length > MAX_LENGTH ? digest(times) : times;
}

/** Undefined for a digest, and for a text that this version does not parse. */
export function parseFingerprint(stored: string): Times | undefined {
  const times = parsedJson(stored);
  if (!Array.isArray(times)) return undefined;
  const [text, timezone, startAt, endAt, except] = times;
  try {
    const schedule = parseSchedule(text, { timezone: timezone ?? undefined });
    const zone = timezone ?? schedule.timezone;
    return {
      schedule: { ...schedule, timezone: zone, except },
      startAt: Number(startAt),
      endAt: Number(endAt),
    };
  } catch {
    return undefined;
  }
}
