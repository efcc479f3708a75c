/** The audit log, and what untyped callers may ask for. */

import { runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { KEPT_ACTIONS } from "../../../src/operator/actions/audit.ts";
import type { OperateRequest } from "../../../src/operator/protocol.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import { givenThink, message, refusal, until } from "../../support/given.ts";
import { appHooks, type ThinkAgent } from "../../support/think-agent.ts";

type Agent = ReturnType<typeof givenThink>;

const later = new Date(Date.now() + 3_600_000);
const valid = {
  action: { do: "cancel", submissionId: "none" },
  by: "ada",
  reason: "why",
} as const satisfies OperateRequest;

function inside<T>(
  agent: Agent,
  work: (object: ThinkAgent, storage: DurableObjectStorage) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(agent as unknown as DurableObjectStub, (object, { storage }) =>
    work(object as unknown as ThinkAgent, storage),
  );
}

function countActions(storage: DurableObjectStorage): number {
  const made = "SELECT 1 FROM sqlite_master WHERE name = 'perdure_actions'";
  if (storage.sql.exec(made).toArray().length === 0) return 0;
  const query = "SELECT COUNT(*) AS count FROM perdure_actions";
  return storage.sql.exec<{ count: number }>(query).one().count;
}

describe("the audit log", () => {
  it("keeps a row as started when the agent crashes in an action", async () => {
    const name = `think-${crypto.randomUUID()}`;
    appHooks.set(name, {
      async onStatus({ status }, agent) {
        if (status === "aborted") agent.die();
      },
    });
    const { submissionId } = await givenThink(name).submitMessages([message("later")], {
      notBefore: later,
    });
    const action = { do: "cancel", submissionId } as const;
    await refusal(capabilitiesOf(givenThink(name)).operations.operate({ ...valid, action }));
    const items = await until(async () => {
      const page = await capabilitiesOf(givenThink(name))
        .operations.listActions()
        .catch(() => undefined);
      return page?.items;
    });
    expect(items).toMatchObject([
      { outcome: "started", count: 0, action, by: "ada", reason: "why" },
    ]);
  });

  it("keeps the newest 10,000 rows, and gives them in pages", async () => {
    const agent = givenThink();
    await capabilitiesOf(agent).operations.operate(valid);
    await inside(agent, (_, { sql }) => {
      sql.exec(
        `WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
         INSERT INTO perdure_actions (seq, at, outcome, actor, reason, action)
         SELECT n, n, 'done', 'bob', 'many', '{"do":"cancel","submissionId":"x"}' FROM n`,
        KEPT_ACTIONS,
      );
    });
    await capabilitiesOf(agent).operations.operate(valid);
    await capabilitiesOf(agent).operations.operate(valid);
    expect(await inside(agent, (_, storage) => countActions(storage))).toBe(KEPT_ACTIONS);
    const seen: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < 3; page++) {
      const options = { limit: 3, ...(cursor !== undefined && { cursor }) };
      const found = await capabilitiesOf(agent).operations.listActions(options);
      seen.push(...found.items.map(({ auditId }) => auditId));
      cursor = found.cursor;
    }
    expect(seen).toEqual(Array.from({ length: 9 }, (_, index) => String(10_002 - index)));
  });

  it("stores who and why as they are given", async () => {
    const agent = givenThink();
    await inside(agent, (object) =>
      fc.assert(
        fc.asyncProperty(
          fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 }),
          fc
            .oneof(
              fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 100 }),
              fc.constantFrom(
                "'); DROP TABLE perdure_actions; --",
                "<script>alert(1)</script>",
                "\0",
              ),
            )
            .filter((reason) => reason.trim() !== ""),
          async (by, reason) => {
            const { auditId } = await object.operations.operate({ ...valid, by, reason });
            const [entry] = (await object.operations.listActions({ limit: 1 })).items;
            expect(entry).toMatchObject({ auditId, by, reason });
          },
        ),
        { numRuns: 100 },
      ),
    );
  });
});

describe("requests of untyped callers", () => {
  it.each<[string, unknown, RegExp]>([
    ["no request", undefined, /^Invalid request undefined: expected an object/],
    ["no action", { by: "a", reason: "b" }, /^Missing option "action" in request/],
    ["an unknown option", { ...valid, force: true }, /^Unknown option "force" in request/],
    ["no reason", { ...valid, reason: "" }, /^Invalid reason "": expected a string of 1 to 500/],
    ["a blank reason", { ...valid, reason: " \n" }, /^Invalid reason ".*": expected a reason/],
    ["a long reason", { ...valid, reason: "x".repeat(501) }, /1 to 500 characters/],
    ["a long name", { ...valid, by: "x".repeat(201) }, /1 to 200 characters/],
    ["half of a character", { ...valid, reason: "\ud800" }, /unpaired surrogate/],
    ["an unknown action", { ...valid, action: { do: "rm" } }, /^Invalid action\.do "rm"/],
    ["a name of Object", { ...valid, action: { do: "constructor" } }, /^Invalid action\.do/],
    ["no id", { ...valid, action: { do: "cancel" } }, /^Missing option "submissionId" in action/],
    [
      "an id and a filter",
      { ...valid, action: { do: "cancel", submissionId: "a", filter: {} } },
      /^Unknown option "submissionId" in action/,
    ],
    [
      "a filter of a verb that takes none",
      { ...valid, action: { do: "approve", filter: {} } },
      /^Unknown option "filter" in action/,
    ],
    [
      "an unknown name in a filter",
      { ...valid, action: { do: "cancel", filter: { user: "a" } } },
      /^Unknown option "user" in filter\. Valid options: status/,
    ],
    [
      "a filter without its value",
      { ...valid, action: { do: "cancel", filter: { thread: undefined } } },
      /^Invalid filter\.thread undefined: expected a value\. Leave it out to select all/,
    ],
    [
      "a status that cannot be cancelled",
      { ...valid, action: { do: "cancel", filter: { status: "completed" } } },
      /^Invalid filter\.status \["completed"\]: expected one or more of pending, running/,
    ],
    [
      "metadata that is no value",
      { ...valid, action: { do: "retry", filter: { metadata: { a: {} } } } },
      /^Invalid metadata\.a/,
    ],
    ["a cursor without a filter", { ...valid, cursor: "1:2" }, /^Invalid cursor "1:2"/],
    [
      "a foreign cursor",
      { ...valid, action: { do: "cancel", filter: {} }, cursor: "x" },
      /^Invalid cursor "x": expected the cursor of an earlier page/,
    ],
    [
      "a foreign cursor of dead letters",
      { ...valid, action: { do: "redrive", filter: {} }, cursor: "x" },
      /^Invalid cursor "x"/,
    ],
    [
      "an invalid destination",
      { ...valid, action: { do: "redrive", filter: { destination: { kind: "fax" } } } },
      /fax/,
    ],
    [
      "an invalid URL",
      { ...valid, action: { do: "enable-endpoint", url: "here" } },
      /^Invalid url "here": expected a URL/,
    ],
    [
      "a payload that JSON cannot hold",
      { ...valid, action: { do: "approve", approvalId: "a", payload: { n: 1n } } },
      /^Invalid payload .*expected a value that JSON can hold/,
    ],
    [
      "a large payload",
      { ...valid, action: { do: "approve", approvalId: "a", payload: "x".repeat(70_000) } },
      /^Invalid action of \d+ bytes: expected at most 65536 bytes/,
    ],
    [
      "times in the wrong order",
      { ...valid, action: { do: "backfill", taskId: "a", from: 2, to: 1 } },
      /^Invalid to 1: expected a time after from/,
    ],
  ])("%s is refused with a clear error, and nothing is stored", async (_, request, expected) => {
    const agent = givenThink();
    await inside(agent, async (object, storage) => {
      const error = await refusal(object.operations.operate(request as OperateRequest));
      expect(error).toMatchObject({ name: "InvalidOperationError" });
      expect(error.message).toMatch(expected);
      expect(countActions(storage)).toBe(0);
    });
  });

  it("whatever is asked for is done or refused, and what is refused is not stored", async () => {
    const agent = givenThink();
    const names = fc.constantFrom(
      ...["cancel", "retry", "redrive", "replay", "approve", "pause-task", "backfill"],
      ...["restart-workflow", "clear-thread", "enable-endpoint", "nothing"],
    );
    const keys = fc.constantFrom(
      ...["submissionId", "deliveryId", "approvalId", "taskId", "workflowId", "thread", "url"],
      ...["filter", "payload", "step", "source", "id", "from", "to", "__proto__", "status"],
    );
    const action = fc
      .tuple(names, fc.dictionary(keys, fc.anything({ withBigInt: true, maxDepth: 2 })))
      .map(([name, rest]) => ({ ...rest, do: name }));
    const request = fc.record(
      {
        action: fc.oneof({ weight: 5, arbitrary: action }, fc.anything()),
        by: fc.oneof({ weight: 5, arbitrary: fc.constant("ada") }, fc.anything()),
        reason: fc.oneof({ weight: 5, arbitrary: fc.constant("why") }, fc.anything()),
        dryRun: fc.oneof(fc.constant(false), fc.boolean(), fc.anything()),
        cursor: fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.anything()),
      },
      { requiredKeys: ["action", "by", "reason"] },
    );
    await inside(agent, (object, storage) =>
      fc.assert(
        fc.asyncProperty(request, async (asked) => {
          const before = countActions(storage);
          try {
            const { outcome, auditId } = await object.operations.operate(asked as OperateRequest);
            expect(["done", "unchanged", "not-found", "failed"]).toContain(outcome);
            expect(countActions(storage)).toBe(before + (auditId === undefined ? 0 : 1));
          } catch (error) {
            expect((error as Error).name, String(error)).toBe("InvalidOperationError");
            expect((error as Error).message.length).toBeLessThan(1_000);
            expect(countActions(storage)).toBe(before);
          }
        }),
        { numRuns: 500 },
      ),
    );
  });

  it("a value that changes while it is read is read once", async () => {
    const agent = givenThink();
    await inside(agent, async (object) => {
      let reads = 0;
      const action = {
        do: "cancel",
        get submissionId() {
          return ++reads === 1 ? "none" : { toString: () => "other" };
        },
      };
      const result = await object.operations.operate({ ...valid, action: action as never });
      expect(result.outcome).toBe("not-found");
      const thrown = {
        do: "cancel" as const,
        get submissionId(): string {
          throw new Error("boom");
        },
      };
      const error = await refusal(object.operations.operate({ ...valid, action: thrown }));
      expect(error).toMatchObject({ name: "InvalidOperationError" });
    });
  });
});
