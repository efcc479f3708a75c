import { describe, expect, it } from "vitest";
import { type Evidence, findingsOf } from "../../bench/webhooks/count.ts";
import type { Delivery, Kind, Look } from "../../bench/webhooks/deliveries.ts";
import type { Record } from "../../bench/webhooks/sender.ts";

type Planted = {
  kind?: Kind;
  record?: Partial<Record>;
  row?: Partial<Look["log"][number]> | "none";
  look?: Partial<Look>;
  evidence?: Partial<Evidence>;
};

/** The kinds of findings for one delivery that was sent twice, with a defect. */
function found({ kind = "sync", record, row, look, evidence }: Planted): string[] {
  const delivery: Delivery = {
    ...{ source: "github", id: "one", kind, agent: "agent-0", delayMs: 0 },
    again: ["later"],
  };
  const verdicts = kind === "none" ? ["filtered", "filtered"] : ["accepted", "duplicate"];
  const records: Record[] = [{ delivery, verdicts, lost: 0, refused: new Map(), ...record }];
  const verdict = kind === "none" ? "filtered" : "accepted";
  const own = { source: "github", id: "one", verdict, duplicates: 1, error: null };
  const looks: Look[] = [
    {
      agent: "agent-0",
      log: row === "none" ? [] : [{ ...own, ...row }],
      effects:
        kind === "sync" || kind === "async" ? [{ delivery: "one", what: kind, times: 1 }] : [],
      ...{ submissions: [], workflows: [], waiting: 0, deadLetters: [] },
      ...look,
    },
  ];
  const findings = findingsOf({
    ...{ records, looks, workflows: {}, invalid: [], wrong: [] },
    ...evidence,
  });
  return findings.map((finding) => finding.kind);
}

const effect = (what: string, times = 1) => ({ delivery: "one", what, times });

describe("the findings of the soak of deliveries", () => {
  it("finds nothing where each delivery was accepted once", () => {
    expect(found({})).toEqual([]);
    expect(found({ kind: "none" })).toEqual([]);
    const lost = { verdicts: ["duplicate"], lost: 1 };
    expect(found({ record: lost })).toEqual([]);
    const repeated = { effects: [effect("async", 2)] };
    expect(found({ kind: "async", record: lost, look: repeated })).toEqual([]);
  });

  it.each<[string, Planted, string[]]>([
    ["a delivery without a row", { row: "none" }, ["lost"]],
    ["an effect that is missing", { look: { effects: [] } }, ["lost"]],
    [
      "a submission that is missing",
      { kind: "submit", look: { effects: [effect("turn")] } },
      ["lost"],
    ],
    ["a dead letter", { look: { deadLetters: [{ id: "x", error: "" }] } }, ["lost"]],
    ["an effect that ran twice", { look: { effects: [effect("sync", 2)] } }, ["twice"]],
    [
      "an asynchronous method that ran twice although each request was answered",
      { kind: "async", look: { effects: [effect("async", 2)] } },
      ["twice"],
    ],
    [
      "two workflows",
      { kind: "workflow", look: { effects: [effect("workflow a"), effect("workflow b")] } },
      ["twice"],
    ],
    [
      "a submission that nothing asked for",
      { look: { submissions: [{ delivery: "one", status: "completed" }] } },
      ["twice"],
    ],
    ["an entry in an outbox", { look: { waiting: 1 } }, ["stuck"]],
    ["an open workflow", { evidence: { workflows: { w: "running" } } }, ["stuck"]],
    ["two answers of accepted", { record: { verdicts: ["accepted", "accepted"] } }, ["log"]],
    ["no answer of accepted", { record: { verdicts: ["duplicate", "duplicate"] } }, ["log"]],
    ["a duplicate that is not counted", { row: { duplicates: 0 } }, ["log"]],
    ["a duplicate that was not sent", { row: { duplicates: 2 } }, ["log"]],
    ["another verdict", { row: { verdict: "refused" } }, ["log"]],
    ["a handler that has not ended", { row: { error: "{}" } }, ["log"]],
    ["a row that no request has written", { row: { id: "two" } }, ["lost", "log"]],
    ["an answer that nothing explains", { evidence: { wrong: ["one: 500"] } }, ["answers"]],
  ])("finds %s", (_, planted, kinds) => {
    expect(found(planted)).toEqual(kinds);
  });
});
