/** Which findings are announced, and when the agent looks again. */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Alert, decide, MOST_ALERTS } from "../../../src/operator/alerts/decide.ts";
import type { AlertSettings } from "../../../src/operator/alerts/options.ts";
import type { FindingCode } from "../../../src/operator/catalog.ts";
import type { Finding, Severity } from "../../../src/operator/protocol.ts";
import { method } from "../../../src/outbox/index.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const settings: AlertSettings = { to: method("hear"), on: "error", after: 5 * MINUTE, quiet: HOUR };

function finding(
  code: FindingCode,
  about?: string,
  { severity = "error", since }: { severity?: Severity; since?: number } = {},
): Finding {
  return {
    code,
    ...(about !== undefined && { about }),
    severity,
    title: code,
    evidence: { count: 1, ids: [], ...(since !== undefined && { since }) },
    cause: "a test",
    fix: { text: "none" },
    link: { view: "overview" },
  };
}

/** Plays checks, and notes the messages of each. */
function played(checks: readonly (readonly [now: number, findings: readonly Finding[]])[]) {
  let alerts: readonly Alert[] = [];
  return checks.map(([now, findings]) => {
    const before = alerts;
    const decision = decide(findings, before, settings, now);
    ({ alerts } = decision);
    return { due: decision.due, said: messages(before, alerts) };
  });
}

/** `open` or `over`, as the capability reads it from rows that have changed. */
function messages(before: readonly Alert[], after: readonly Alert[]) {
  return after
    .filter((alert) => !before.includes(alert) && (alert.announcedAt ?? alert.overAt) !== null)
    .map(({ overAt }) => (overAt === null ? "open" : "over"));
}

describe("decide()", () => {
  const paid = finding("dead-letters", "pay");

  it("announces a finding that has lasted, once, and its end", () => {
    const [first, second, third, fourth] = played([
      [0, [paid]],
      [5 * MINUTE, [{ ...paid, evidence: { count: 9, ids: ["b"] } }]],
      [10 * MINUTE, [paid]],
      [20 * MINUTE, []],
    ]);
    expect(first).toEqual({ said: [], due: 5 * MINUTE });
    expect(second).toEqual({ said: ["open"], due: 10 * MINUTE });
    expect(third?.said).toEqual([]);
    expect(fourth).toEqual({ said: ["over"], due: null });
  });

  it("counts from the time that the finding's evidence has", () => {
    const old = finding("dead-letters", "pay", { since: -HOUR });
    expect(played([[0, [old]]])[0]?.said).toEqual(["open"]);
  });

  it("does not announce what has not lasted", () => {
    const said = played([
      [0, [paid]],
      [MINUTE, []],
      [5 * MINUTE, [paid]],
      [9 * MINUTE, [paid]],
    ]);
    expect(said.flatMap((one) => one.said)).toEqual([]);
  });

  it("announces what comes back only after the quiet period, and looks again then", () => {
    const said = played([
      [5 * MINUTE, [finding("dead-letters", "pay", { since: 0 })]],
      [10 * MINUTE, []],
      [15 * MINUTE, [finding("dead-letters", "pay", { since: 12 * MINUTE })]],
      [10 * MINUTE + HOUR, [finding("dead-letters", "pay", { since: 12 * MINUTE })]],
    ]);
    expect(said.map((one) => one.said)).toEqual([["open"], ["over"], [], ["open"]]);
    expect(said[2]?.due).toBe(10 * MINUTE + HOUR);
  });

  it("looks for an announced finding ever more rarely, and never for one that waits for a person or a schedule", () => {
    const open = (code: FindingCode) => [finding(code, "x", { since: -HOUR })];
    const dues = played([
      [0, open("dead-letters")],
      [HOUR, open("dead-letters")],
      [48 * HOUR, open("dead-letters")],
    ]);
    expect(dues.map(({ due }) => due)).toEqual([5 * MINUTE, 2 * HOUR, 54 * HOUR]);
    for (const code of ["approval-expires-soon", "task-failing"] as const)
      expect(played([[0, open(code)]])).toEqual([{ said: ["open"], due: null }]);
  });

  it("takes what a report that is not whole lacks for not over", () => {
    const said = played([
      [0, [finding("dead-letters", "pay", { since: -HOUR })]],
      [HOUR, [finding("report-incomplete", "outbox")]],
      [2 * HOUR, Array.from({ length: 20 }, (_, each) => finding("dead-letters", `${each}`))],
    ]);
    expect(said.map((one) => one.said)).toEqual([["open"], [], []]);
  });

  it("L9: knows at most 200 findings, and forgets those that are over for new ones", () => {
    const many = (name: string, count: number) =>
      Array.from({ length: count }, (_, each) =>
        finding("task-failing", `${name}${each}`, { since: -HOUR }),
      );
    const full = decide(many("a", 300), [], settings, 0).alerts;
    expect(full).toHaveLength(MOST_ALERTS);
    const over = decide([], full, settings, 1).alerts;
    const next = decide(many("b", 3), over, settings, 2).alerts;
    expect(next).toHaveLength(MOST_ALERTS);
    expect(messages(over, next)).toEqual(["open", "open", "open"]);
  });

  it("says open and over in turn, only of what lasts, and not within the quiet period", () => {
    const step = fc.record({
      ms: fc.integer({ min: 1, max: 2 * HOUR }),
      present: fc.subarray(["a", "b", "c"]),
      severity: fc.constantFrom<Severity>("error", "warning"),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let now = 0;
        let alerts: readonly Alert[] = [];
        const since = new Map<string, number>();
        const latest = new Map<string, { state: string; at: number }>();
        for (const { ms, present, severity } of steps) {
          now += ms;
          for (const name of ["a", "b", "c"])
            if (!present.includes(name)) since.delete(name);
            else if (!since.has(name)) since.set(name, now);
          const before = alerts;
          const findings = present.map((name) => finding("tool-fails", name, { severity }));
          const decision = decide(findings, before, settings, now);
          ({ alerts } = decision);
          if (decision.due !== null) expect(decision.due).toBeGreaterThan(now);
          for (const alert of alerts.filter((one) => !before.includes(one))) {
            const name = alert.finding.about ?? "";
            const last = latest.get(name);
            if (alert.overAt !== null) {
              expect(last?.state).toBe("open");
              expect(present).not.toContain(name);
              latest.set(name, { state: "over", at: now });
            } else if (alert.announcedAt !== null) {
              expect(last?.state).not.toBe("open");
              expect(severity).toBe("error");
              expect(now - (since.get(name) ?? now)).toBeGreaterThanOrEqual(settings.after);
              if (last) expect(now - last.at).toBeGreaterThanOrEqual(settings.quiet);
              latest.set(name, { state: "open", at: now });
            }
          }
        }
      }),
    );
  });
});
