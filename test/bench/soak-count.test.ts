/** The counting of bench/soak: a defect that is planted in the records is found, and what is right is not. */

import { describe, expect, it } from "vitest";
import { type Evidence, findingsOf } from "../../bench/soak/count.ts";
import type { Entry } from "../../bench/soak/ledger.ts";
import { noRecords, noteDelivery, noteEffect, noteOutcome } from "../../bench/soak/records.ts";
import { CUT_OFF, type Look } from "../../bench/soak/words.ts";

const ENDED: Look["submissions"][number] = {
  id: "sub-1",
  key: "s-1",
  status: "completed",
  attempts: 1,
  error: null,
  startedAt: 1_000,
  dueAt: null,
  failures: null,
};
const RUN: Look["runs"][number] = {
  task: "tick",
  occurrence: 10_000,
  key: "tick-10",
  status: "completed",
  submissionId: null,
  error: null,
};
const LOOK: Look = {
  agent: "a",
  submissions: [ENDED],
  workflows: [],
  runs: [RUN, { ...RUN, occurrence: 20_000, key: "tick-20" }],
  missed: {},
  openWaits: [],
  outbox: [],
  deadLetters: [],
  messages: { main: ["s-1"] },
  alarm: null,
  jobs: [],
};
const ASKED = { agent: "a", askedAt: 1_000, acceptedAt: 1_100 } as const;

const SUBMITTED: Entry = {
  ...ASKED,
  kind: "submission",
  id: "s-1",
  submissionIds: new Set(["sub-1"]),
  thread: "main",
  planned: new Map([["s-1.1", 2]]),
};

const endOf = (submissionId: string, status = "completed") =>
  JSON.stringify({ type: `submission.${status}`, data: { submissionId, status } });
const occurrenceOf = (occurrence: number, key: string) =>
  JSON.stringify({ type: "occurrence", agent: "a", task: "tick", occurrence, key });

/** One of each kind, all of them well. */
function given(): Evidence & { records: Evidence["records"]; entries: Entry[] } {
  const records = noRecords();
  noteDelivery(records, "d-1", endOf("sub-1"));
  noteDelivery(records, "d-2", occurrenceOf(10_000, "tick-10"));
  noteDelivery(records, "d-3", occurrenceOf(20_000, "tick-20"));
  noteOutcome(records, { workflow: "w-1", outcome: "sleep" });
  const entries: Entry[] = [
    { ...SUBMITTED, submissionIds: new Set(SUBMITTED.submissionIds) },
    {
      ...ASKED,
      kind: "workflow",
      id: "w-1",
      submissionIds: new Set(),
      expected: "sleep",
      planned: new Map(),
    },
  ];
  noteEffect(records, "s-1.1");
  noteEffect(records, "s-1.1");
  const platform = { "w-1": "complete" };
  return { entries, records, looks: [LOOK], platform, acceptedMalformed: [] };
}

const withLook = (change: Partial<Look>): Evidence => ({
  ...given(),
  looks: [{ ...LOOK, ...change }],
});
const withRow = (change: Partial<typeof ENDED>) =>
  withLook({ submissions: [{ ...ENDED, ...change }] });

/** Evidence in which something is different. */
function changed(change: (evidence: ReturnType<typeof given>) => void): Evidence {
  const evidence = given();
  change(evidence);
  return evidence;
}

describe("a correct run", () => {
  it.each<[string, Evidence]>([
    ["where all is well", given()],
    [
      "where an event came again",
      changed(({ records }) => noteDelivery(records, "d-1", endOf("sub-1"))),
    ],
    [
      "where an outcome came again",
      changed(({ records }) => noteOutcome(records, { workflow: "w-1", outcome: "sleep" })),
    ],
    [
      "where a workflow's child was interrupted",
      changed(({ entries, records }) => {
        entries[1] = {
          ...ASKED,
          kind: "workflow",
          id: "w-1",
          submissionIds: new Set(),
          expected: "child:researched",
          planned: new Map(),
        };
        records.outcomes.clear();
        noteOutcome(records, { workflow: "w-1", outcome: CUT_OFF });
      }),
    ],
    [
      "where a cleared message is gone",
      {
        ...withLook({ messages: { main: [], side: ["s-1"] } }),
        entries: [{ ...SUBMITTED, isCleared: true }],
      },
    ],
    [
      "where a workflow was terminated",
      {
        ...changed(({ entries, records }) => {
          if (entries[1]) entries[1].isTerminated = true;
          records.outcomes.clear();
        }),
        platform: { "w-1": "terminated" },
      },
    ],
    [
      "where a job of the platform's is left",
      withLook({ alarm: 5, jobs: [{ id: "cf:housekeeping", time: 5 }] }),
    ],
  ])("a run %s has no findings", (_, evidence) => {
    expect(findingsOf(evidence)).toEqual([]);
  });
});

describe("planted defects", () => {
  it.each<[string, string, string, Evidence]>([
    [
      "lost",
      "s-1",
      "an accepted submission that the ledger does not have (L1)",
      withLook({ submissions: [] }),
    ],
    [
      "lost",
      "s-1",
      "an end without a notification (O1)",
      changed(({ records }) => records.ends.clear()),
    ],
    [
      "lost",
      "w-1",
      "a workflow without an outcome",
      changed(({ records }) => records.outcomes.clear()),
    ],
    [
      "lost",
      "a tick 1970-01-01T00:00:20.000Z",
      "an occurrence that did not run (S1)",
      {
        ...changed(({ records }) => {
          records.deliveries.delete("d-3");
          noteDelivery(records, "d-4", occurrenceOf(30_000, "tick-30"));
        }),
        looks: [{ ...LOOK, runs: [RUN] }],
      },
    ],
    [
      "lost",
      "a tick 1970-01-01T00:00:20.000Z",
      "a run whose event was not delivered (O2)",
      changed(({ records }) => records.deliveries.delete("d-3")),
    ],
    ["lost", "a tick", "occurrences that were missed (S3)", withLook({ missed: { tick: 2 } })],
    ["lost", "letter", "a dead letter (O3)", withLook({ deadLetters: ["letter"] })],
    [
      "stuck",
      "s-1",
      "a question without an answer",
      changed(({ entries }) => delete entries[0]?.acceptedAt),
    ],
    ["stuck", "sub-1", "a turn that is open", withRow({ status: "running" })],
    ["stuck", "w-1", "a workflow that is running", { ...given(), platform: { "w-1": "running" } }],
    ["stuck", "a wait", "a wait that is open", withLook({ openWaits: ["a wait"] })],
    [
      "stuck",
      "a tick 1970-01-01T00:00:10.000Z",
      "a run that is open",
      withLook({ runs: [{ ...RUN, status: "running" }] }),
    ],
    [
      "duplicate",
      "sub-1",
      "one end by two delivery ids (O2)",
      changed(({ records }) => noteDelivery(records, "d-9", endOf("sub-1"))),
    ],
    [
      "duplicate",
      "d-1",
      "one delivery id with two events (L2)",
      changed(({ records }) => noteDelivery(records, "d-1", endOf("sub-1", "error"))),
    ],
    [
      "duplicate",
      "w-1",
      "two outcomes of one workflow (W1)",
      changed(({ records }) => noteOutcome(records, { workflow: "w-1", outcome: "other" })),
    ],
    [
      "duplicate",
      "s-1",
      "one key that was answered with two ids (L3)",
      changed(({ entries, records }) => {
        entries[0]?.submissionIds.add("sub-2");
        noteDelivery(records, "d-5", endOf("sub-2"));
      }),
    ],
    [
      "duplicate",
      "a: s-1",
      "one key with two rows (L3)",
      withLook({ submissions: [ENDED, { ...ENDED, id: "sub-2" }] }),
    ],
    [
      "duplicate",
      "a tick 1970-01-01T00:00:10.000Z",
      "one occurrence with two keys (S1)",
      changed(({ records }) => noteDelivery(records, "d-6", occurrenceOf(10_000, "other"))),
    ],
    ["alarm", "a", "an entry in the outbox (O5)", withLook({ outbox: ["entry"] })],
    [
      "alarm",
      "a",
      "a job of Perdure without work (O5)",
      withLook({ jobs: [{ id: "perdure.waits:wake", time: 5 }] }),
    ],
    ["alarm", "a", "an alarm without a job (O5)", withLook({ alarm: 5 })],
    [
      "effects run twice",
      "s-1.1",
      "a tool call that ran more often than the model made it (L6)",
      changed(({ records }) => noteEffect(records, "s-1.1")),
    ],
    [
      "came back",
      "s-1",
      "a cleared message that is in the conversation (L5)",
      { ...given(), entries: [{ ...SUBMITTED, isCleared: true }] },
    ],
    ["came back", "s-1", "a message twice (L4)", withLook({ messages: { main: ["s-1", "s-1"] } })],
    ["failed", "s-1", "a turn that failed (L8)", withRow({ status: "error", error: "no" })],
    [
      "failed",
      "thread",
      "an option that accepted malformed text (L1)",
      { ...given(), acceptedMalformed: ["thread"] },
    ],
    [
      "failed",
      "w-1",
      "a workflow with an unexpected outcome",
      changed(({ records }) => {
        records.outcomes.clear();
        noteOutcome(records, { workflow: "w-1", outcome: "other" });
      }),
    ],
  ])("the kind %s is found for %s: %s", (kind, id, _, evidence) => {
    expect(findingsOf(evidence)).toContainEqual(expect.objectContaining({ kind, id }));
  });
});
