/** Which findings are announced, and which are over. Without I/O. */

import { earliest } from "../../core/clock.ts";
import type { Finding } from "../protocol.ts";
import { MOST_PER_CODE } from "../report/report.ts";
import type { AlertSettings } from "./options.ts";

/** Findings that are known at a time. @internal */
export const MOST_ALERTS = 200;
/** An announced finding is looked for again after as long as it was announced for, at most this. */
const LONGEST_MS = 6 * 3_600_000;
/** Findings that end when a person decides or a schedule fires: the agent is awake then. */
const WAITS = /^(approval-waits|approval-expires|task)-/;

/** A row. Waits for `after`, is announced (`announcedAt`), or is over (`overAt`) and quiet. */
export type Alert = {
  /** The code of the finding and what it concerns. */
  readonly key: string;
  readonly firstAt: number;
  readonly announcedAt: number | null;
  readonly overAt: number | null;
  /** The finding as it was announced. */
  readonly finding: Finding;
};

export type Decision = {
  /** The rows as they are from now on. */
  readonly alerts: readonly Alert[];
  /** When to look again, or null. */
  readonly due: number | null;
};

export const isOpen = (alert: Alert | undefined) =>
  alert !== undefined && alert.announcedAt !== null && alert.overAt === null;

/** @param findings of a report, the worst first */
export function decide(
  findings: readonly Finding[],
  known: readonly Alert[],
  settings: AlertSettings,
  now: number,
): Decision {
  const before = new Map(known.map((alert) => [alert.key, alert]));
  const present = new Map<string, Finding>();
  const counts = new Map<string, number>();
  for (const finding of findings) {
    const { code, about, severity } = finding;
    counts.set(code, (counts.get(code) ?? 0) + 1);
    const key = JSON.stringify([code, about]);
    if (severity !== "info" && !present.has(key)) present.set(key, finding);
  }
  // Of a report that is not whole, what is missing is not over.
  const isMissing = ({ finding: { code } }: Alert) =>
    (counts.get(code) ?? 0) >= MOST_PER_CODE ||
    (counts.has("report-incomplete") && code !== "report-incomplete");
  const after = new Map<string, Alert>();
  const times: number[] = [];
  for (const key of new Set([...before.keys(), ...present.keys()])) {
    const finding = present.get(key);
    const alert = before.get(key);
    const next =
      alert && !finding && isOpen(alert) && isMissing(alert)
        ? alert
        : nextOf(key, alert, finding, settings, now);
    if (!next || (!alert && after.size >= MOST_ALERTS && !dropQuiet(after, present))) continue;
    after.set(key, next);
    times.push(dueOf(next, finding, settings, now));
  }
  return { alerts: [...after.values()], due: earliest(times.filter(Number.isFinite)) };
}

function nextOf(
  key: string,
  alert: Alert | undefined,
  finding: Finding | undefined,
  { on, after, quiet }: AlertSettings,
  now: number,
): Alert | undefined {
  if (alert && isOpen(alert)) return finding ? alert : { ...alert, overAt: now };
  if (alert?.overAt != null && now < alert.overAt + quiet) return alert;
  if (!finding || (finding.severity !== "error" && on === "error")) return undefined;
  const seen = alert?.announcedAt === null ? alert.firstAt : now;
  const firstAt = Math.min(seen, finding.evidence.since ?? now);
  const announcedAt = now >= firstAt + after ? now : null;
  return { key, firstAt, announcedAt, overAt: null, finding };
}

/** When an alert can change without an event of the agent; Infinity: never. */
function dueOf(
  alert: Alert,
  finding: Finding | undefined,
  { after, quiet }: AlertSettings,
  now: number,
): number {
  const { announcedAt, overAt, firstAt } = alert;
  if (overAt !== null) return finding ? overAt + quiet : Number.POSITIVE_INFINITY;
  if (announcedAt === null) return firstAt + after;
  if (WAITS.test(alert.finding.code)) return Number.POSITIVE_INFINITY;
  return now + Math.max(after, Math.min(now - announcedAt, LONGEST_MS));
}

/** Makes room by the oldest alert that is over. Returns whether there was one. */
function dropQuiet(alerts: Map<string, Alert>, present: ReadonlyMap<string, Finding>): boolean {
  const [oldest] = [...alerts.values()]
    .filter(({ overAt, key }) => overAt !== null && !present.has(key))
    .toSorted((one, other) => (one.overAt ?? 0) - (other.overAt ?? 0));
  return oldest !== undefined && alerts.delete(oldest.key);
}
