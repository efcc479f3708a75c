/** What `npx perdure show` prints of tasks and workflows. */

import { expect, it } from "vitest";
import { AGENT, given, json, run, withCommandLine } from "./deployment.ts";

withCommandLine();

const AT = Date.UTC(2026, 10, 25, 9);
/** Braces, quotes around names, and epoch milliseconds. */
const RAW = /[{}]|"\w+":|\b1[78]\d{11}\b/;

it("show prints a task and its runs without JSON and epoch numbers", async () => {
  const runOf = (fields: object) => ({
    ...{ taskId: "daily", idempotencyKey: "k", scheduledFor: AT, firedAt: AT + 40, lagMs: 40 },
    ...{ cause: "schedule", status: "completed", attempts: 1, ...fields },
  });
  const failed = runOf({
    ...{ status: "failed", attempts: 3, endedAt: AT + 90_040 },
    ...{ error: { name: "Error", message: "no answer" }, submissionId: "s-7" },
  });
  const task = {
    ...{ taskId: "daily", schedule: "every day at 09:00", timezone: "UTC", state: "paused" },
    paused: { at: AT + 100_000, by: "failure", note: "3 failures" },
    ...{ next: null, nextOccurrences: [AT + 86_400_000, AT + 2 * 86_400_000], lastRun: failed },
    counts: { completed: 4, failed: 1, skipped: 0, missed: 2 },
    metadata: { owner: "ann", limits: { retries: 3 } },
  };
  const url = await given({
    [`${AGENT}/tasks/daily`]: json(task),
    [`${AGENT}/tasks/daily/runs`]: json({ items: [failed, runOf({ endedAt: AT + 540 })] }),
  });
  const { code, out } = await run(url, ["show", "tasks", "daily"]);
  expect(code).toBe(0);
  expect(out).not.toMatch(RAW);
  for (const line of [
    /^next +none$/m,
    /^nextOccurrences +2026-11-26T09:00:00Z, 2026-11-27T09:00:00Z$/m,
    /^paused +at: 2026-11-25T09:01:40Z, by: failure, note: 3 failures$/m,
    /^lastRun +failed, for 2026-11-25T09:00:00Z$/m,
    /^counts +completed: 4, failed: 1, skipped: 0, missed: 2$/m,
    /^metadata +owner: ann, limits: \(retries: 3\)$/m,
    /^failed +2026-11-25T09:00:00Z +40 ms +1 min 30 s +schedule +3 +s-7 +no answer$/m,
    /^completed +2026-11-25T09:00:00Z +40 ms +500 ms +schedule +1$/m,
  ]) {
    expect(out).toMatch(line);
  }
});

it("show prints a workflow and its steps with durations, inputs and outputs, all of them bounded", async () => {
  const steps = [
    {
      ...{ name: "read", kind: "prompt", status: "completed", startedAt: AT + 500 },
      ...{ endedAt: AT + 2_500, submissionIds: ["s-1"] },
      ...{ input: "Is this a gift?", output: '{"isGift":true,"items":[{"id":1},{"id":2}]}' },
    },
    {
      ...{ name: "sign", count: 2, kind: "approval", status: "expired", startedAt: AT + 3_000 },
      ...{ endedAt: AT + 3_603_000, approvalId: "a-1", error: "Nobody decided" },
      ...{ input: `{"text":"${"x".repeat(900)}`, output: JSON.stringify("y".repeat(900)) },
    },
    { name: "ship", kind: "do", status: "running", startedAt: AT + 3_604_000 },
    ...Array.from({ length: 120 }, (_, nth) => ({
      ...{ name: `more-${nth}`, kind: "do", status: "completed", startedAt: AT, endedAt: AT },
    })),
  ];
  const workflow = {
    ...{ workflowId: "w-1", workflow: "ORDER", status: "errored", createdAt: AT },
    ...{ updatedAt: AT + 1, endedAt: AT + 50 * 3_600_000, steps },
    ...{ error: { name: "Error", message: "Out of stock" }, output: { paid: true, at: AT } },
  };
  const url = await given({ [`${AGENT}/workflows/w-1`]: json(workflow) });
  const { code, out } = await run(url, ["show", "workflows", "w-1"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^createdAt +2026-11-25T09:00:00Z$/m);
  expect(out).toMatch(/^took +2 d 2 h$/m);
  expect(out).toMatch(/^error +name: Error, message: Out of stock$/m);
  expect(out).toMatch(/^output +paid: true, at: 2026-11-25T09:00:00Z$/m);
  expect(out).toContain(
    "\nread  prompt  completed  2026-11-25T09:00:00Z (after 500 ms), took 2.0 s\n" +
      "  input       Is this a gift?\n" +
      "  output      isGift: true, items: (id: 1), (id: 2)\n" +
      "  submission  s-1\n",
  );
  expect(out).toMatch(/^sign \(2\) {2}approval {2}expired .* took 1 h 0 min$/m);
  expect(out).toMatch(/^ship {2}do {2}running {2}\S+ \(after 1 h 0 min\), for /m);
  expect(out).toContain("23 more steps; all of them with --json");
  for (const line of out.split("\n")) expect(line.length).toBeLessThan(330);
  // A text that was cut in the middle of its JSON is printed as it is.
  const own = out.split("\n").filter((line) => !line.includes('"text"'));
  expect(own.join("\n")).not.toMatch(RAW);
  expect(JSON.parse((await run(url, ["show", "workflows", "w-1", "--json"])).out)).toEqual(
    workflow,
  );
});
