/** The judge of the soak: a defect that is planted in the evidence is found, and what is right is not. */

import { describe, expect, it } from "vitest";
import type { Beat } from "../beats.ts";
import type { Follower } from "../followers.ts";
import type { ArrivalEntry, Entry, PutEntry, SubmissionEntry, WorkflowEntry } from "../ledger.ts";
import {
  noRecords,
  noteDelivery,
  noteEffect,
  noteMethod,
  noteOutcome,
  type Records,
} from "../records.ts";
import { type Ask, CUT_OFF, type Look, type ToolStep } from "../words.ts";
import type { Evidence } from "./evidence.ts";
import { judge } from "./judge.ts";

const ASK: Ask = {
  ...{ key: "s-1", text: "the answer to s-1", hasOutput: false, thread: "lane-0", delayMs: 0 },
  ...{ tool: "effect", effects: [["s-1.1", "s-1.1"]], hasBoom: false, refusedUntil: 0 },
  whenBusy: "enqueue",
};
const ANSWER = "I begin. the answer to s-1";
const ENDED: Look["submissions"][number] = {
  ...{ id: "sub-1", key: "s-1", thread: "lane-0", status: "completed", attempts: 1 },
  ...{ output: ANSWER, messageId: "reply-1", mergedInto: null, error: null, failures: null },
};
const SECOND: typeof ENDED = {
  ...ENDED,
  ...{ id: "sub-2", key: "s-2", output: "the answer to s-2", messageId: "reply-2" },
};
const RUN: Look["runs"][number] = {
  ...{ task: "tick", occurrence: 10_000, key: "tick-10", cause: "schedule" },
  ...{ status: "completed", submissionId: null, error: null },
};
const BEAT_RUN = { ...RUN, task: "beat", occurrence: 5_000, key: "beat-5" };
const delivered = (id: string, submissionId: string) => ({
  ...{ id, submissionId, kind: "webhook", state: "delivered", error: null },
});
const said = (id: string, text = "") => ({
  ...{ id, text, role: id.startsWith("reply") ? "assistant" : "user" },
});
const LOOK: Look = {
  agent: "a",
  submissions: [ENDED, SECOND],
  runs: [RUN, { ...RUN, occurrence: 20_000, key: "tick-20" }, BEAT_RUN],
  missed: {},
  deliveries: [delivered("d-1", "sub-1"), delivered("d-7", "sub-2")],
  ...{ deadLetters: [], approvals: [], openWork: [], alarm: null },
  workflows: { "w-1": "complete" },
  messages: {
    "lane-0": [
      ...[said("s-1"), said("reply-1", ANSWER)],
      ...[said("s-2"), said("reply-2", "the answer to s-2")],
    ],
  },
};
const ASKED = { agent: "a", askedAt: 1_000, acceptedAt: 1_100 } as const;

const endOf = (submissionId: string, output: unknown = ANSWER, status = "completed") =>
  JSON.stringify({ type: `submission.${status}`, data: { submissionId, status, output } });
const occurrence = (at: number, key: string, task = "tick", cause = "schedule") =>
  JSON.stringify({ type: "occurrence", agent: "a", task, occurrence: at, cause, key });
const step = (name: ToolStep["step"], idempotencyKey: string, token: string): ToolStep => ({
  ...{ key: "c-1", step: name, idempotencyKey, token },
});

type Given = Evidence & {
  readonly records: Records;
  readonly first: SubmissionEntry;
  readonly second: SubmissionEntry;
  readonly workflow: WorkflowEntry;
  readonly put: PutEntry;
  readonly arrival: ArrivalEntry;
  readonly follower: Follower;
  readonly beat: Beat;
};

/** One of each kind, all of them well. */
function given(): Given {
  const records = noRecords();
  noteDelivery(records, "d-1", endOf("sub-1"));
  noteDelivery(records, "d-7", endOf("sub-2", "the answer to s-2"));
  noteDelivery(records, "d-2", occurrence(10_000, "tick-10"));
  noteDelivery(records, "d-3", occurrence(20_000, "tick-20"));
  noteDelivery(records, "d-4", occurrence(5_000, "beat-5", "beat"));
  noteDelivery(records, "d-5", occurrence(5_100, "beat-t", "beat", "trigger"));
  noteDelivery(records, "d-6", JSON.stringify({ type: "arrival", key: "r-1" }));
  noteMethod(records, { id: "p-1", key: "p-1" });
  noteOutcome(records, { workflow: "w-1", outcome: ["prompt:w-1-0", "child:w-1-1"] });
  noteEffect(records, "s-1.1");
  noteEffect(records, "s-1.1");
  records.steps.push(step("take", "i-1", "t-1"), step("take", "i-1", "t-2"));
  records.steps.push(step("note", "i-2", "t-2"), step("note", "i-2", "t-2"));
  records.readings.push({ text: ASK.text, results: [["s-1.1", '"done 1"']] });
  const ids = { retriedIds: new Set<string>(), openCalls: 0 };
  const submission = { ...ASKED, ...ids, kind: "submission" } as const;
  const first = { ...submission, id: "s-1", ask: ASK, submissionIds: new Set(["sub-1"]) };
  const secondAsk: Ask = { ...ASK, key: "s-2", text: "the answer to s-2", effects: [] };
  const second = { ...submission, id: "s-2", ask: secondAsk, submissionIds: new Set(["sub-2"]) };
  const workflow: WorkflowEntry = {
    ...{ ...ASKED, kind: "workflow", id: "w-1", needsApproval: false },
    expected: ["prompt:w-1-0", "child:w-1-1"],
    planned: new Map(),
    charges: new Map([["c-1", 1]]),
  };
  const put: PutEntry = { ...ASKED, kind: "put", id: "p-1", to: "accept" };
  const arrival: ArrivalEntry = {
    ...{ ...ASKED, kind: "arrival", id: "r-1", type: "note" },
    verdicts: ["accepted", "duplicate"],
  };
  const follower: Follower = {
    ...{ agent: "a", kind: "thread", id: "lane-0", isOver: false, connections: 2 },
    ends: new Map([
      ["sub-1", ["completed"]],
      ["sub-2", ["completed"]],
    ]),
    messages: new Map([
      ["sub-1", [ANSWER]],
      ["sub-2", ["the answer to s-2"]],
    ]),
  };
  const beat: Beat = {
    ...{ agent: "a", isBackfilled: true, skipped: new Set<number>() },
    triggers: new Map([["t", new Set(["beat-t"])]]),
    last: { from: 4_000, to: 9_000 },
  };
  const entries: Entry[] = [first, second, workflow, put, arrival];
  return {
    ...{ entries, records, looks: [LOOK], platform: { "w-1": "complete" } },
    ...{ acceptedMalformed: [], refusedKeys: ["i-1"], problems: [], unsettled: [] },
    ...{
      followers: [follower],
      beats: [beat],
      first,
      second,
      workflow,
      put,
      arrival,
      follower,
      beat,
    },
  };
}

/** Evidence in which something is different. */
function changed(change: (evidence: Given) => Partial<Evidence> | void): Evidence {
  const evidence = given();
  return { ...evidence, ...change(evidence) };
}
const withLook = (change: Partial<Look>) => changed(() => ({ looks: [{ ...LOOK, ...change }] }));
const withRow = (change: Partial<typeof ENDED>) =>
  withLook({ submissions: [{ ...ENDED, ...change }, SECOND] });

describe("a correct run", () => {
  it.each<[string, Evidence]>([
    ["where all is well", given()],
    [
      "where an event came again",
      changed(({ records }) => noteDelivery(records, "d-1", endOf("sub-1"))),
    ],
    [
      "where a workflow was restarted, and its child interrupted",
      changed(({ records }) =>
        noteOutcome(records, { workflow: "w-1", outcome: ["prompt:w-1-0", CUT_OFF] }),
      ),
    ],
    [
      "where a cleared message is gone",
      changed(({ first }) => {
        first.isCleared = true;
        return {
          looks: [{ ...LOOK, messages: { "lane-0": (LOOK.messages["lane-0"] ?? []).slice(1) } }],
        };
      }),
    ],
    [
      "where a turn has stored no message, and its follower has its reply",
      changed(() => {
        const submissions = [{ ...ENDED, thread: "isolated", messageId: null }, SECOND];
        const ends = new Map([["sub-1", ["completed"]]]);
        const messages = new Map([["sub-1", [ANSWER]]]);
        const kind = "submission" as const;
        const follower = {
          agent: "a",
          kind,
          id: "sub-1",
          ends,
          messages,
          isOver: true,
          connections: 1,
        };
        const first = { ...given().first, ask: { ...ASK, thread: "isolated" } };
        const entries = given().entries.map((entry) => (entry.id === "s-1" ? first : entry));
        return { entries, looks: [{ ...LOOK, submissions }], followers: [follower] };
      }),
    ],
    [
      "where a workflow was terminated",
      changed(({ workflow, records }) => {
        workflow.isTerminated = true;
        records.outcomes.clear();
        return { platform: { "w-1": "terminated" } };
      }),
    ],
    [
      "where a submission was refused",
      changed(({ first }) => {
        first.submissionIds.clear();
        first.refused = "BusyError";
        const submissions = [SECOND];
        const lane = (LOOK.messages["lane-0"] ?? []).slice(2);
        return { looks: [{ ...LOOK, submissions, messages: { "lane-0": lane } }] };
      }),
    ],
    [
      "where a submission has joined the turn of another, and has its answer",
      changed(({ records }) => {
        records.ends.delete("sub-1");
        noteDelivery(records, "d-1", endOf("sub-1", "the answer to s-2"));
        const output = "the answer to s-2";
        const submissions = [{ ...ENDED, output, mergedInto: "sub-2" }, SECOND];
        return { looks: [{ ...LOOK, submissions }], followers: [] };
      }),
    ],
  ])("a run %s has no findings", (_, evidence) => {
    const known = evidence.records.deliveries.get("d-1");
    // The event that the change has replaced.
    if (known && known.bodies.size > 1) known.bodies.delete(endOf("sub-1"));
    expect(judge(evidence)).toEqual([]);
  });
});

describe("planted defects", () => {
  it.each<[string, string, string, Evidence]>([
    [
      "lost",
      "s-1",
      "an accepted submission that is not in the list (L1)",
      withLook({ submissions: [SECOND] }),
    ],
    [
      "lost",
      "s-1",
      "an end without an event (O1)",
      changed(({ records }) => void records.ends.delete("sub-1")),
    ],
    [
      "wrong answer",
      "s-1",
      "the answer of another submission in the event (L1)",
      changed(({ records }) => {
        records.ends.clear();
        noteDelivery(records, "d-1", endOf("sub-1", "the answer to s-2"));
      }),
    ],
    [
      "wrong answer",
      "s-1",
      "the answer of another in the inspection (L7)",
      withRow({ output: "the answer to s-2" }),
    ],
    [
      "wrong answer",
      "s-1",
      "the answer of another in the thread (L4)",
      withLook({
        messages: {
          "lane-0": [
            ...[said("s-1"), said("reply-1", "the answer to s-2")],
            ...[said("s-2"), said("reply-2", "the answer to s-2")],
          ],
        },
      }),
    ],
    [
      "wrong answer",
      "w-1",
      "a workflow with the answer of another step (W3)",
      changed(({ records }) => {
        records.outcomes.clear();
        noteOutcome(records, { workflow: "w-1", outcome: ["prompt:w-2-0", "child:w-1-1"] });
      }),
    ],
    [
      "failed",
      "s-1",
      "an event that disagrees with the inspection (L2)",
      withRow({ status: "aborted" }),
    ],
    [
      "failed",
      "s-1",
      "a submission that ended aborted without a request (L1)",
      changed(({ records }) => {
        records.ends.clear();
        noteDelivery(records, "d-1", endOf("sub-1", null, "aborted"));
        return { looks: [{ ...LOOK, submissions: [{ ...ENDED, status: "aborted" }, SECOND] }] };
      }),
    ],
    [
      "lost",
      "w-1",
      "a workflow without an outcome",
      changed(({ records }) => records.outcomes.clear()),
    ],
    ["lost", "w-1", "a workflow that its agent does not track (W6)", withLook({ workflows: {} })],
    [
      "lost",
      "p-1",
      "an event that never came (O2)",
      changed(({ records }) => records.puts.clear()),
    ],
    [
      "duplicate",
      "p-1",
      "an event under another id (O2)",
      changed(({ records }) => noteMethod(records, { id: "other", key: "p-1" })),
    ],
    [
      "lost",
      "r-1",
      "an arrival without its effect (I1)",
      changed(({ records }) => records.arrivals.clear()),
    ],
    [
      "duplicate",
      "r-1",
      "an arrival that ran twice (I1)",
      changed(({ records }) =>
        noteDelivery(records, "d-8", JSON.stringify({ type: "arrival", key: "r-1" })),
      ),
    ],
    [
      "failed",
      "r-1",
      "an arrival that was accepted twice (I1)",
      changed(({ arrival }) => void arrival.verdicts.push("accepted")),
    ],
    [
      "lost",
      "a tick 1970-01-01T00:00:20.000Z",
      "an occurrence that did not run (S1)",
      changed(({ records }) => {
        records.deliveries.delete("d-3");
        noteDelivery(records, "d-8", occurrence(30_000, "tick-30"));
        return { looks: [{ ...LOOK, runs: [RUN, BEAT_RUN] }] };
      }),
    ],
    [
      "lost",
      "a tick 1970-01-01T00:00:20.000Z",
      "a run whose event was not delivered (O2)",
      changed(({ records }) => void records.deliveries.delete("d-3")),
    ],
    ["lost", "a tick", "occurrences that were missed (S3)", withLook({ missed: { tick: 2 } })],
    [
      "lost",
      "a beat 1970-01-01T00:00:05.000Z",
      "an occurrence that was backfilled, and did not run (S5)",
      changed(({ records }) => void records.deliveries.delete("d-4")),
    ],
    [
      "lost",
      "a beat t",
      "a trigger that did not run (S5)",
      changed(({ records }) => void records.deliveries.delete("d-5")),
    ],
    [
      "duplicate",
      "a beat t",
      "a key that triggered two runs (S5)",
      changed(({ beat }) => void beat.triggers.get("t")?.add("beat-u")),
    ],
    [
      "failed",
      "a beat 1970-01-01T00:00:05.000Z",
      "an occurrence that was skipped, and ran (S5)",
      changed(({ beat }) => ({
        beats: [{ ...beat, isBackfilled: false, skipped: new Set([5_000]) }],
      })),
    ],
    [
      "lost",
      "letter",
      "a dead letter (O3)",
      withLook({ deadLetters: [{ id: "letter", error: "no" }] }),
    ],
    [
      "lost",
      "s-1",
      "a delivery that is missing (O1)",
      withLook({ deliveries: [delivered("d-7", "sub-2")] }),
    ],
    [
      "duplicate",
      "s-1",
      "two deliveries of one end (O1)",
      withLook({ deliveries: [...LOOK.deliveries, delivered("d-9", "sub-1")] }),
    ],
    [
      "stuck",
      "s-1",
      "a question without an answer",
      changed(({ first }) => void delete first.acceptedAt),
    ],
    [
      "stuck",
      "s-1",
      "a request that had not ended when the soak was over",
      changed(() => ({ unsettled: ["s-1"] })),
    ],
    ["stuck", "sub-1", "a turn that is open (L1)", withRow({ status: "running" })],
    [
      "stuck",
      "w-1",
      "a workflow that is running (W2)",
      changed(() => ({ platform: { "w-1": "running" } })),
    ],
    [
      "stuck",
      "approval-1",
      "an approval that is open (W2)",
      withLook({ approvals: ["approval-1"] }),
    ],
    [
      "stuck",
      "prompt wait-1",
      "a wait that is open (W2)",
      withLook({ openWork: ["prompt wait-1"] }),
    ],
    [
      "stuck",
      "d-9",
      "a delivery that waits (O2)",
      withLook({
        deliveries: [...LOOK.deliveries, { ...delivered("d-9", "other"), state: "waiting" }],
      }),
    ],
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
      changed(({ records }) => noteDelivery(records, "d-1", endOf("sub-1", null, "error"))),
    ],
    [
      "duplicate",
      "w-1",
      "two outcomes of one workflow (W1)",
      changed(({ records }) => noteOutcome(records, { workflow: "w-1", outcome: ["other"] })),
    ],
    [
      "duplicate",
      "s-1",
      "one key that was answered with two ids (L3)",
      changed(({ first }) => void first.submissionIds.add("sub-9")),
    ],
    [
      "duplicate",
      "s-1",
      "one submission that was retried twice (L3)",
      changed(({ first }) => void first.retriedIds.add("sub-8").add("sub-9")),
    ],
    [
      "duplicate",
      "a: s-1",
      "one key with two submissions (L3)",
      withLook({ submissions: [ENDED, SECOND, { ...ENDED, id: "sub-9" }] }),
    ],
    [
      "duplicate",
      "a tick 1970-01-01T00:00:10.000Z",
      "one occurrence with two keys (S1)",
      changed(({ records }) => noteDelivery(records, "d-8", occurrence(10_000, "other"))),
    ],
    ["alarm", "a", "an alarm of an idle agent (O5)", withLook({ alarm: 5 })],
    [
      "effects run twice",
      "s-1.1",
      "a tool call that ran more often than the model made it (L6)",
      changed(({ records }) => noteEffect(records, "s-1.1")),
    ],
    [
      "effects run twice",
      "c-1",
      "a durable step that ran under two keys (L6)",
      changed(({ records }) => void records.steps.push(step("take", "i-9", "t-9"))),
    ],
    [
      "effects run twice",
      "c-1",
      "a durable step that ran again after its result was used (L6)",
      changed(({ records }) => void records.steps.push(step("take", "i-1", "t-9"))),
    ],
    [
      "effects run twice",
      "c-1",
      "a durable step whose result has changed (L6)",
      changed(({ records }) => void records.steps.push(step("note", "i-2", "t-1"))),
    ],
    [
      "lost",
      "c-1",
      "a durable step that did not run, of a completed turn (L6)",
      changed(({ records }) => void records.steps.splice(2)),
    ],
    [
      "forgotten",
      "s-1.1",
      "a finished tool call that a later attempt has not found (L6)",
      changed(({ records }) => {
        records.readings.push({ text: ASK.text, results: [["s-1.1", '"was interrupted"']] });
      }),
    ],
    [
      "came back",
      "s-1",
      "a cleared message that is in the conversation (L5)",
      changed(({ first }) => {
        first.isCleared = true;
      }),
    ],
    [
      "came back",
      "s-1",
      "a message of a submission that was cancelled before it started (L5)",
      changed(({ first, records }) => {
        first.isCancelled = true;
        records.ends.clear();
        noteDelivery(records, "d-1", endOf("sub-1", null, "aborted"));
        return {
          looks: [{ ...LOOK, submissions: [{ ...ENDED, status: "aborted", attempts: 0 }, SECOND] }],
        };
      }),
    ],
    [
      "came back",
      "s-1",
      "a message twice (L4)",
      withLook({ messages: { main: [said("s-1"), said("s-1")] } }),
    ],
    [
      "came back",
      "s-1",
      "a submission that was deleted",
      changed(({ first }) => {
        first.isDeleted = true;
      }),
    ],
    ["lost", "s-1", "a message that is missing (L4)", withLook({ messages: { "lane-0": [] } })],
    [
      "order",
      "s-2",
      "a message before the turn of an earlier one has ended (L4)",
      withLook({
        messages: {
          "lane-0": [
            said("s-1"),
            said("s-2"),
            said("reply-1", ANSWER),
            said("reply-2", "the answer to s-2"),
          ],
        },
      }),
    ],
    [
      "failed",
      "s-1",
      "a refused submission that is stored (L1)",
      changed(({ first }) => {
        first.submissionIds.clear();
        first.refused = "BusyError";
      }),
    ],
    [
      "failed",
      "s-2",
      "a submission of a call that was refused as a whole (L1)",
      changed(() => ({ refusedKeys: ["s-2"] })),
    ],
    [
      "failed",
      "thread",
      "an option that accepted malformed text (L1)",
      changed(() => ({ acceptedMalformed: ["thread"] })),
    ],
    [
      "failed",
      "s-1",
      "an answer that nothing explains",
      changed(() => ({ problems: [{ id: "s-1", what: "?" }] })),
    ],
    [
      "follower",
      "sub-1",
      "a follower that has an end twice",
      changed(({ follower }) => void follower.ends.set("sub-1", ["completed", "completed"])),
    ],
    [
      "follower",
      "sub-1",
      "a follower that misses an end",
      changed(({ follower }) => void follower.ends.delete("sub-1")),
    ],
    [
      "follower",
      "sub-1",
      "a follower that misses a message",
      changed(({ follower }) => void follower.messages.delete("sub-1")),
    ],
    [
      "wrong answer",
      "sub-1",
      "a follower that has the message of another",
      changed(({ follower }) => void follower.messages.set("sub-1", ["the answer to s-2"])),
    ],
  ])("the kind %s is found for %s: %s", (kind, id, _, evidence) => {
    expect(judge(evidence)).toContainEqual(expect.objectContaining({ kind, id }));
  });
});
