/** The report as a whole: its cost, what it does with a broken part, and its documentation. */

import { describe, expect, it, onTestFinished, vi } from "vitest";
import docs from "../../../docs/report.md?raw";
import { KIND_SIZE } from "../../../src/engine/store.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { FINDINGS } from "../../../src/operator/catalog.generated.ts";
import { operatedOf } from "../../../src/operator/operated.ts";
import { healthReport } from "../../../src/operator/report/report.ts";
import { message } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import type { Agent } from "../../support/think.ts";
import { declared } from "../../support/think-agent.ts";
import { codesIn, givenAgent, inside, MINUTE, reportOf } from "./support.ts";

const tests = import.meta.glob<string>("./*.test.ts", {
  query: "?raw",
  import: "default",
  eager: true,
});
const codes = Object.keys(FINDINGS);

const ROWS = 12_000;
/** Numbers from 1 to {@link ROWS}. */
const NUMBERS = `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${ROWS})`;

/** Fills every table that the report reads. */
function fill(agent: Agent): Promise<void> {
  return inside(agent, ({ [CAPABILITIES]: { waits } }, { storage: { sql } }) => {
    waits.store.newId("approval");
    const now = Date.now();
    const messages = JSON.stringify([message("x".repeat(500))]);
    sql.exec(
      `${NUMBERS} INSERT INTO perdure_submissions
         (submission_id, status, attempts, thread, created_at, started_at, settled_at, error_name, error, messages)
       SELECT 'filled-' || n, iif(n % 3, 'completed', 'error'), 1, 'main', ?1 - n, ?1 - n, ?1 - n,
         iif(n % 3, NULL, 'Error' || (n % 50)), iif(n % 3, NULL, 'broken ' || n), ?2 FROM numbers`,
      now,
      messages,
    );
    sql.exec(
      `${NUMBERS} INSERT INTO perdure_submissions (submission_id, status, thread, created_at, messages)
       SELECT 'open-' || n, 'pending', 'thread-' || (n % 100), ?1 - 300000, ?2 FROM numbers`,
      now,
      messages,
    );
    sql.exec(
      `${NUMBERS} INSERT INTO perdure_outbox
         (id, destination_key, seq, due_at, is_ordered, attempts, created_at, queued_at, last_error, destination, payload)
       SELECT 'out-' || n, 'webhook https://host-' || (n % 40) || '.example/', n, ?1 + 3600000, 0, 5, ?1, ?1,
         'host answered 500: ' || n, '{"kind":"webhook","url":"https://host-' || (n % 40) || '.example/","secrets":["HOOK_SECRET"]}',
         '{}' FROM numbers`,
      now,
    );
    sql.exec(
      `${NUMBERS} INSERT INTO perdure_outbox_ended
         (id, destination_key, state, seq, is_ordered, attempts, created_at, ended_at, is_notified, is_uncertain, reason, destination, payload)
       SELECT 'dead-' || n, 'queue "Q' || (n % 40) || '"', 'dead', n, 0, 5, ?1, ?1 - n, 1, n % 2, 'refused ' || n,
         '{"kind":"queue","queue":"Q' || (n % 40) || '"}', '{}' FROM numbers`,
      now,
    );
    sql.exec(
      `${NUMBERS} INSERT INTO perdure_inbound
         (seq, source, id, type, verdict, bytes, hash, received_at, stored_at, body_bytes, kept_bytes, emptied, error, calls)
       SELECT n + 10, 'source-' || (n % 40), 'in-' || n, 't', iif(n % 2, 'accepted', 'refused'), 1, 'h', ?1, ?1, 0, 0, 0,
         iif(n % 2, NULL, '{"name":"TypeError","message":"broken"}'), '[]' FROM numbers`,
      now,
    );
    sql.exec(
      `${NUMBERS} INSERT INTO perdure_jobs (seq, id, due_at, expires_at, created_at, data, request)
       SELECT ${KIND_SIZE} + n, 'wait-' || n, ?1 + 1e9, ?1 + 1e9, ?1 - 7200000,
         json_object('run', 'run', 'proof', 'p', 'workflow', json_object('name', 'WF', 'id', 'instance-' || n, 'stepName', 'step-' || (n % 40))), '{}'
       FROM numbers`,
      now,
    );
  });
}

describe("the cost of a report", () => {
  it("reads a bounded number of rows by at most 30 statements, and writes nothing", async () => {
    const handler = () => {};
    const tasks = Object.fromEntries(
      Array.from({ length: 20 }, (_, n) => [`task-${n}`, { schedule: "every hour", handler }]),
    );
    const agent = givenAgent({}, () => tasks);
    await agent.callKernel("acceptArrival", call(arrival("first"), "submissionStats"));
    await capabilitiesOf(agent).schedules.list();
    const empty = await measured(agent);
    await fill(agent);
    const full = await measured(agent);
    // Else it would work off what it was filled with.
    await inside(agent, (object) => object.leave()).catch(() => {});
    for (const { cost } of [empty, full]) {
      expect(cost.statements).toBeLessThanOrEqual(30);
      expect(cost).toMatchObject({ rowsWritten: 0, setAlarms: 0, keysWritten: 0 });
    }
    // 20 tasks, and the list of the tables.
    expect(empty.cost.rowsRead).toBeLessThanOrEqual(250);
    // Four tables of 10,000 rows at most; open submissions and waits are read by way of an index.
    expect(full.cost.rowsRead).toBeLessThanOrEqual(50_000);
    const { report } = full;
    for (const code of codes) {
      expect(codesIn(report).filter((one) => one === code).length).toBeLessThanOrEqual(20);
    }
    for (const { evidence } of report.findings) expect(evidence.ids.length).toBeLessThanOrEqual(10);
    expect(JSON.stringify(report).length).toBeLessThanOrEqual(200_000);
    expect(report.counts).toMatchObject({ outbox: { waiting: 10_000, deadLetters: 10_000 } });
    const severities = report.findings.map(({ severity }) => severity);
    const ordered = ["error", "warning", "info"].flatMap((one) =>
      severities.filter((severity) => severity === one),
    );
    expect(severities).toEqual(ordered);
  });
});

describe("a long history", () => {
  it("costs fewer than 2,000 rows read, the same for 10,000 submissions as for 100,000", async () => {
    const agent = givenAgent();
    await agent.submissionStats();
    /** Completed ones, one a second, the latest now. */
    const fillTo = (from: number, to: number) =>
      inside(agent, (_, { storage: { sql } }) =>
        sql.exec(
          `WITH RECURSIVE numbers (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
           INSERT INTO perdure_submissions (submission_id, status, thread, created_at, settled_at, messages)
           SELECT 'ended-' || n, 'completed', 'main', ?3 - (?2 - n) * 1000, ?3 - (?2 - n) * 1000, '[]' FROM numbers`,
          ...[from, to, Date.now()],
        ),
      );
    await fillTo(1, 1_000);
    expect((await measured(agent)).report.countedFrom).toBeUndefined();
    await fillTo(1_001, 10_000);
    const few = await measured(agent);
    await fillTo(10_001, 100_000);
    const many = await measured(agent);
    expect(few.cost.rowsRead).toBeLessThan(2_000);
    expect(many.cost.rowsRead).toBe(few.cost.rowsRead);
    const { counts, hourly, countedFrom = 0, at } = many.report;
    expect(counts.submissions.completed).toBe(1_000);
    expect(hourly.completed.reduce((sum, count) => sum + count, 0)).toBe(1_000);
    // What it counts reaches back so far.
    expect(Math.round((at - countedFrom) / 1_000)).toBeGreaterThanOrEqual(999);
    expect(Math.round((at - countedFrom) / 1_000)).toBeLessThan(1_060);
  });
});

function measured(agent: Agent) {
  return inside(agent, async (object) => {
    object.meter.reset();
    const report = await healthReport(operatedOf(object[CAPABILITIES]));
    return { report, cost: object.meter.read() };
  });
}

describe("a broken part", () => {
  it("report-incomplete: a method of the app that throws is a finding, and the rest is reported", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const agent = givenAgent({}, () => {
      throw new Error("no tasks today");
    });
    onTestFinished(() => void declared.delete(agent.name ?? ""));
    await capabilitiesOf(agent).outbox.disableEndpoint("https://hooks.example.com/", "maintenance");
    const report = await reportOf(agent);
    expect(report.findings).toMatchObject([
      { code: "report-incomplete", evidence: { lastError: expect.stringContaining("no tasks") } },
      { code: "endpoint-disabled" },
    ]);
    expect(report.verdicts.onTime).toBeUndefined();
    expect(log.mock.calls.flat().join(" ")).toContain("the health report has no scheduler");
    log.mockRestore();
  });

  it("a corrupt row is left out, and the others are reported", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const agent = givenAgent();
    await agent.callKernel("acceptArrival", call(arrival("d1"), "notThere"));
    await inside(agent, (_, { storage: { sql } }) => {
      sql.exec("UPDATE perdure_inbound SET error = '{broken'");
      sql.exec(
        `INSERT INTO perdure_outbox_ended
           (id, destination_key, state, seq, is_ordered, attempts, created_at, ended_at, is_notified, is_uncertain, reason, destination, payload)
         VALUES ('bad', 'webhook https://a.example/', 'dead', 1, 0, 1, ?1, ?1, 1, 0, 'no', '{broken', '{}')`,
        Date.now(),
      );
    });
    const { findings } = await reportOf(agent);
    expect(findings.map(({ code }) => code).toSorted()).toEqual([
      "dead-letters",
      "inbound-refused",
    ]);
    vi.restoreAllMocks();
  });

  it("a missing table makes its part incomplete, and no verdict true that it is needed for", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const agent = givenAgent();
    await agent.submissionStats();
    await inside(agent, ({ [CAPABILITIES]: { waits } }, { storage: { sql } }) => {
      waits.store.newId("approval");
      sql.exec("DROP TABLE perdure_jobs");
    });
    const report = await reportOf(agent, { later: MINUTE });
    expect(codesIn(report)).toEqual(["report-incomplete"]);
    expect(report.verdicts.onTime).toBeUndefined();
    log.mockRestore();
  });
});

describe("the documentation", () => {
  it("docs/report.md lists exactly the codes, with their questions", () => {
    const rows = [...docs.matchAll(/^\| `([a-z-]+)` \| (\w+) \|/gm)];
    const documented = Object.fromEntries(
      rows.map(([, code, question]) => [code, question === "none" ? null : question]),
    );
    expect(documented).toEqual(FINDINGS);
  });

  it("each code has a test that plants its cause", () => {
    const names = Object.values(tests).join("\n");
    // This file is not in the list, and the API makes the finding of an agent that does not answer.
    const elsewhere = ["report-incomplete", "agent-unreachable"];
    const others = codes.filter((code) => !elsewhere.includes(code));
    for (const code of others) expect(names).toContain(`"${code}: `);
  });
});
