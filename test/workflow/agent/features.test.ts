/** What a class gets that does not install a feature: the error with the line to add, and a line about stored work. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { KIND_SIZE } from "../../../src/engine/store.ts";
import { codemode } from "../../../src/features/codemode/index.ts";
import { inbound } from "../../../src/features/inbound/index.ts";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { durable } from "../../../src/hosts/object/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { operations } from "../../../src/operator/operations.ts";
import { defineScheduledTasks, schedules } from "../../../src/scheduler/index.ts";
import type { Feature } from "../../../src/workflow/agent/kernel.ts";
import { refusal } from "../../support/given.ts";
import { makeJobs } from "../../support/jobs.ts";
import { inObject, plainObject } from "../../support/plain-object.ts";

const LINE = "static override readonly features = [schedules()]";
const ENTRY = 'Import it from "perdure/scheduler".';

const tasks = () =>
  defineScheduledTasks({ digest: { schedule: "every day at 09:00 in UTC", handler: () => {} } });

const messageOf = async (work: () => unknown) =>
  (await refusal(Promise.resolve().then(work))).message;

describe("without schedules()", () => {
  it.each([
    ["list", []],
    ["inspect", ["digest"]],
    ["runs", ["digest"]],
    ["pause", ["digest"]],
    ["resume", ["digest"]],
    ["trigger", ["digest"]],
    ["backfill", ["digest", { from: 0, to: 1 }]],
    ["skipNext", ["digest"]],
    ["remove", ["digest"]],
  ] as const)("schedules.%s() throws an error with the line to add", async (verb, args) => {
    const error = await inObject((ctx, given) => {
      const { schedules: remote } = capabilitiesOf(plainObject(ctx, given, []).durable);
      return refusal((remote[verb] as (...args: unknown[]) => Promise<unknown>)(...args));
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "schedules" });
    expect(error.message).toContain("agent.schedules needs schedules(). ");
    expect(error.message).toContain(LINE);
    expect(error.message).toContain(ENTRY);
  });

  it("S4: an agent that declares tasks which would never run fails at its start", async () => {
    class Support extends DurableAgent<Cloudflare.Env> {
      override getScheduledTasks() {
        return tasks();
      }
    }
    const message = await inObject((ctx, given) => messageOf(() => new Support(ctx, given)));
    expect(message).toContain("getScheduledTasks() needs schedules(). ");
    expect(message).toContain(LINE);
  });

  it("S4: the same goes for a plain object with such a method, which schedules() reads", async () => {
    const withMethod = (features: readonly Feature[]) =>
      inObject(async (ctx, given) => {
        class Reports extends DurableObject<Cloudflare.Env> {
          readonly lifecycle = Lifecycle.install(this);
          readonly durable = durable(this, { model: "some/model", features });
          getScheduledTasks() {
            return tasks();
          }
        }
        const { durable: made } = new Reports(ctx, given);
        return (await made.schedules.list()).items.map(({ taskId }) => taskId);
      });
    expect(await messageOf(() => withMethod([]))).toContain(
      "getScheduledTasks() needs schedules()",
    );
    expect(await withMethod([schedules()])).toEqual(["digest"]);
  });

  it("operators see no tasks in the report, and an action on one fails with the line to add", async () => {
    const [report, acted] = await inObject(async (ctx, given) => {
      const { durable: agent } = plainObject(ctx, given, [operations()]);
      const of = { action: { do: "pause-task", taskId: "digest" }, reason: "noise", by: "sam" };
      return [
        await agent.operations.healthReport(),
        await agent.operations.operate(of as never),
      ] as const;
    });
    expect(report.findings).toEqual([]);
    expect(report.counts.tasks).toEqual({ active: 0, paused: 0, finished: 0, invalid: 0 });
    expect(acted.outcome).toBe("failed");
    expect(JSON.stringify(acted)).toContain("features = [..., schedules()]");
  });

  it("an object has no table of schedules", async () => {
    const found = await inObject(async (ctx, given) => {
      const object = plainObject(ctx, given, []);
      await object.lifecycle.start();
      return ctx.storage.sql
        .exec("SELECT name FROM sqlite_master WHERE name IN ('perdure_tasks', 'perdure_runs')")
        .toArray();
    });
    expect(found).toEqual([]);
  });
});

function openRow(
  storage: DurableObjectStorage,
  { kind, waitId }: { kind: string; waitId: string },
): void {
  makeJobs(storage, kind);
  const { sql } = storage;
  const workflow = { name: "PROMPT_WORKFLOW", id: "w1", stepName: "s" };
  sql.exec(
    `INSERT INTO perdure_jobs (seq, id, due_at, expires_at, created_at, data, request)
     SELECT version * ${KIND_SIZE} + (SELECT COUNT(*) FROM perdure_jobs), ?, 9e12, 9e12, 1, ?, '{}'
     FROM perdure_schema WHERE module = 'kind:' || ?`,
    waitId,
    JSON.stringify({ run: "r", proof: "p", workflow }),
    kind,
  );
}

describe("stored work of a feature that is no longer installed", () => {
  /** The lines about stored work, from here on. */
  function listen(): () => string[] {
    const spy = vi.spyOn(console, "warn").mockImplementation(() => {});
    onTestFinished(() => spy.mockRestore());
    return () => spy.mock.calls.map(String).filter((text) => text.includes("Stored work"));
  }

  /** Makes tasks in an object, changes what is stored, and starts it again without schedules(). */
  const startedAgain = (between: (sql: SqlStorage) => unknown = () => {}, after: Feature[] = []) =>
    inObject(async (ctx, given) => {
      const before = plainObject(ctx, given, [schedules({ tasks })]);
      await before.lifecycle.start();
      await before.durable.schedules.list();
      between(ctx.storage.sql);
      const again = plainObject(ctx, given, after);
      await again.lifecycle.start();
      return ctx.storage.sql.exec("SELECT task_id FROM perdure_tasks").toArray();
    });

  it("S4: a start says once which tasks wait, with the line to add, and keeps them", async () => {
    const warnings = listen();
    expect(await startedAgain()).toEqual([{ task_id: "digest" }]);
    expect(warnings()).toEqual([
      expect.stringContaining(
        "Stored work in perdure_tasks waits for schedules(). Add to the class Reports: ",
      ),
    ]);
    expect(warnings()[0]).toContain(LINE);
    expect(warnings()[0]).toContain(ENTRY);
  });

  it("an object starts although a newer version has changed the tables, and says so", async () => {
    const warnings = listen();
    const found = await startedAgain((sql) =>
      sql.exec("ALTER TABLE perdure_tasks RENAME COLUMN paused_at TO stopped_at"),
    );
    expect(found).toEqual([{ task_id: "digest" }]);
    expect(warnings()).toEqual([
      expect.stringMatching(
        /^\[perdure\] Stored work of schedules\(\) cannot be read: .*paused_at/,
      ),
    ]);
  });

  it.each([
    ["webhook", "step.webhook()", "inbound", inbound()],
    ["codemode", "runCode()", "codemode", codemode()],
  ])(
    "W2: a start says once that open waits of the kind %s need a feature",
    async (kind, step, feature, value) => {
      const warnings = listen();
      await inObject(async (ctx, given) => {
        await plainObject(ctx, given, []).lifecycle.start();
        for (const n of [1, 2]) openRow(ctx.storage, { kind, waitId: `${kind}-${n}` });
        await plainObject(ctx, given, []).lifecycle.start();
        await plainObject(ctx, given, [value]).lifecycle.start();
      });
      expect(warnings()).toEqual([
        expect.stringContaining(
          `Stored work in perdure_jobs waits: ${step} needs ${feature}(). Add to the class Reports: static override readonly features = [${feature}()]`,
        ),
      ]);
    },
  );

  it("W2: a start of an agent says that open waits of step.agentTool() need agentTools()", async () => {
    const warnings = listen();
    class Support extends DurableAgent<Cloudflare.Env> {}
    await inObject(async (ctx, given) => {
      await plainObject(ctx, given, []).lifecycle.start();
      openRow(ctx.storage, { kind: "agent-tool", waitId: "w1" });
      await new Support(ctx, given).listSubmissions();
    });
    expect(warnings()).toEqual([
      expect.stringContaining("step.agentTool() needs agentTools(). Add to the class Support: "),
    ]);
  });

  it("a start says nothing of waits that are closed, and reads no more without waits", async () => {
    const warnings = listen();
    await inObject(async (ctx, given) => {
      await plainObject(ctx, given, []).lifecycle.start();
      openRow(ctx.storage, { kind: "webhook", waitId: "closed" });
      ctx.storage.sql.exec(
        "UPDATE perdure_jobs SET state = 'skipped', ended_at = 1, due_at = NULL",
      );
      const exec = vi.spyOn(ctx.storage.sql, "exec");
      await plainObject(ctx, given, []).lifecycle.start();
      const queries = exec.mock.calls.filter(([query]) => query.includes("perdure_jobs"));
      expect(queries).toHaveLength(1);
    });
    expect(warnings()).toEqual([]);
  });

  it("a start says nothing of paused tasks, and nothing if the feature is installed", async () => {
    const warnings = listen();
    await startedAgain((sql) => sql.exec("UPDATE perdure_tasks SET paused_at = 1"));
    await startedAgain(() => {}, [schedules({ tasks })]);
    expect(warnings()).toEqual([]);
  });

  it("a start reads no table of a feature that has stored nothing", async () => {
    await inObject(async (ctx, given) => {
      const exec = vi.spyOn(ctx.storage.sql, "exec");
      await plainObject(ctx, given, []).lifecycle.start();
      const queries = exec.mock.calls.map(([query]) => query);
      expect(queries.filter((query) => /perdure_(inbound|tasks|runs)/.test(query))).toEqual([]);
    });
  });
});

describe("schedules() refuses", () => {
  it.each([
    [{ tasks, timezone: "Mars/Base" }, /^Invalid timezone "Mars\/Base"/],
    [{ tasks, timezone: "Europe/Pariss" }, /Did you mean "Europe\/Paris"\?/],
    [{ tasks: {} }, /^Invalid tasks/],
    [{ taks: tasks }, /^Unknown option "taks" in options of schedules\(\)/],
    [null, /^Invalid options of schedules\(\)/],
  ])("%o", (options, message) => {
    expect(() => schedules(options as never)).toThrow(message);
  });

  it("a plain object without tasks", async () => {
    const message = await inObject((ctx, given) =>
      messageOf(() => plainObject(ctx, given, [schedules()])),
    );
    expect(message).toContain("Invalid schedules() of Reports: it has no tasks.");
  });

  it.each([
    ["tasks", { tasks }],
    ["timezone", { timezone: "UTC" }],
    ["onError", { onError: () => {} }],
  ])("%s for a class that has a method for it", async (name, options) => {
    class Support extends DurableAgent<Cloudflare.Env> {
      static override readonly features = [schedules(options)];
    }
    const message = await inObject((ctx, given) => messageOf(() => new Support(ctx, given)));
    expect(message).toContain(`Invalid ${name} of schedules(): the class has methods for it.`);
  });
});
