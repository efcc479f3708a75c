/** Approvals at the agent, without a workflow: asked for, listed, and decided once. */

import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { approvalRequest } from "../../../src/workflow/waits/kinds/approval.ts";
import type { Approval } from "../../../src/workflow/waits/kinds/approval-types.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import type { WaitsObject } from "../../support/objects/waits-object.ts";
import { sizeOf } from "../../support/sizes.ts";
import { ask, type Capability, givenWaits, inside, open, rowsOf } from "../../support/waits.ts";

const at = <T>(stub: Capability, work: (approvals: WaitsObject["approvals"]) => Promise<T>) =>
  inside(stub, ({ approvals }) => work(approvals));

const SCHEMA = z.toJSONSchema(z.object({ amount: z.number().max(100) })) as never;

/** An approval that is asked for, and its id. */
async function given(stub: Capability, schema?: never, rest?: Parameters<typeof ask>[0]) {
  const request = approvalRequest({ title: "Pay", schema });
  return (await open(stub, ask({ request, ...rest }))).waitId;
}

describe("W4: what a decision says is checked at the agent", () => {
  it.each<[string, object, string, RegExp]>([
    [
      "a payload that does not match",
      { payload: { amount: 101 } },
      "payload",
      /amount: .*decide again/s,
    ],
    ["no payload", {}, "payload", /Invalid payload undefined/],
    [
      "who is no text",
      { payload: { amount: 1 }, by: 7 },
      "by",
      /Invalid by 7: expected a non-empty string/,
    ],
    ["no reason", { payload: { amount: 1 }, reason: "" }, "reason", /Invalid reason ""/],
    [
      "an unknown name",
      { amount: 1 },
      "amount",
      /Unknown option "amount" in options of approvals.grant\(\)/,
    ],
    [
      "too much",
      { payload: { amount: 1, x: "x".repeat(1_000_000) } },
      "payload",
      /at most 1000000/,
    ],
    ["no JSON", { payload: { amount: 1, big: 1n } }, "payload", /JSON/],
  ])("W4: %s is refused, and it stays pending", async (_, options, field, message) => {
    const open = z.toJSONSchema(z.looseObject({ amount: z.number().max(100) })) as never;
    const stub = givenWaits();
    const id = await given(stub, open);
    const refused = at(stub, (approvals) =>
      expect(approvals.grant(id, options)).rejects.toMatchObject({
        name: "InvalidApprovalError",
        field,
        message: expect.stringMatching(message),
      }),
    );
    await refused;
    expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
    const granted = await at(stub, (approvals) => approvals.grant(id, { payload: { amount: 1 } }));
    expect(granted).toMatchObject({ outcome: "decided", approval: { payload: { amount: 1 } } });
  });

  it("W4: a payload for an approval that takes none is refused, and not dropped", async () => {
    const stub = givenWaits();
    const id = await given(stub);
    await at(stub, (approvals) =>
      expect(approvals.grant(id, { payload: 1 })).rejects.toThrow(/expected no payload/),
    );
    expect(await at(stub, (approvals) => approvals.grant(id))).toMatchObject({
      outcome: "decided",
    });
  });

  it("a schema that cannot be read back is left to the workflow", async () => {
    const stub = givenWaits();
    const id = await given(stub, { type: "no such type" } as never);
    const granted = await at(stub, (approvals) => approvals.grant(id, { payload: "anything" }));
    expect(granted).toMatchObject({ outcome: "decided", approval: { payload: "anything" } });
  });
});

it("W3: the first decision counts, whatever comes after it", async () => {
  const stub = givenWaits();
  const id = await given(stub, SCHEMA);
  const outcomes = await at(stub, (approvals) =>
    Promise.all([
      approvals.reject(id, { by: "ada" }),
      approvals.grant(id, { payload: { amount: 1 }, by: "bob" }),
      approvals.reject(id, { by: "eve" }),
    ]),
  );
  expect(outcomes.map(({ outcome }) => outcome)).toEqual([
    "decided",
    "already_decided",
    "already_decided",
  ]);
  for (const { approval } of outcomes as { approval: Approval }[]) {
    expect(approval).toMatchObject({ approvalId: id, status: "rejected", by: "ada" });
    expect(approval.payload).toBeUndefined();
  }
  expect(await at(stub, (approvals) => approvals.grant("nobody"))).toEqual({
    outcome: "not_found",
    approvalId: "nobody",
  });
});

it("a wait of another kind is no approval", async () => {
  const stub = givenWaits();
  const id = await given(stub, undefined, { kind: "agent-tool" });
  expect(await at(stub, (approvals) => approvals.inspect(id))).toBeNull();
  expect(await at(stub, (approvals) => approvals.reject(id))).toMatchObject({
    outcome: "not_found",
  });
  expect(await at(stub, (approvals) => approvals.list())).toEqual({ items: [] });
  expect(await rowsOf(stub)).toMatchObject([{ status: "open" }]);
});

describe("a list", () => {
  it("has what is pending, newest first, or what is asked for, in pages", async () => {
    const stub = givenWaits();
    const mine = { workflow: { name: "W", id: "mine", stepName: "s" } };
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await given(stub, undefined, n % 2 === 0 ? mine : {}));
    const [a = "", b = "", c = "", d = "", e = "", f = ""] = ids;
    await at(stub, async (approvals) => {
      await approvals.grant(a);
      await approvals.reject(b, { reason: "no" });
      const listed = async (options?: Parameters<typeof approvals.list>[0]) =>
        (await approvals.list(options)).items.map(({ approvalId }) => approvalId);
      expect(await listed()).toEqual([f, e, d, c]);
      expect(await listed({ limit: 2 })).toEqual([f, e]);
      expect(await listed({ limit: 2, cursor: e })).toEqual([d, c]);
      expect(await listed({ workflowId: "mine" })).toEqual([e, c]);
      expect(await listed({ status: "approved" })).toEqual([a]);
      expect(await listed({ status: ["rejected", "approved"] })).toEqual([b, a]);
      expect(await listed({ status: ["pending", "rejected"], limit: 5 })).toEqual([f, e, d, c, b]);
      expect(await listed({ status: "cancelled" })).toEqual([]);
    });
  });

  it.each<[object, string]>([
    [{ status: "open" }, "status"],
    [{ limit: 0 }, "limit"],
    [{ limit: 101 }, "limit"],
    [{ cursor: "unknown" }, "cursor"],
    [{ workflowId: "" }, "workflowId"],
    [{ who: "me" }, "who"],
  ])("refuses %j", async (options, field) => {
    await at(givenWaits(), (approvals) =>
      expect(approvals.list(options)).rejects.toMatchObject({
        name: "InvalidApprovalError",
        field,
      }),
    );
  });
});

it("a page of large approvals is cut, and the next ones have the rest", async () => {
  const stub = givenWaits();
  await inside(stub, async ({ waits, approvals }) => {
    const data = "x".repeat(1_400_000);
    for (let n = 0; n < 12; n++) {
      await waits.open(ask({ request: { title: String(n), data, schema: null } }));
    }
    const pages: string[][] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await approvals.list({ ...(cursor !== undefined && { cursor }) });
      pages.push(page.items.map(({ title }) => title ?? ""));
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.flat()).toEqual(Array.from({ length: 12 }, (_, n) => String(11 - n)));
  });
});

describe("L1: texts of every kind are kept as they are, or refused", () => {
  const whole = fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 12 });
  /** With half of a surrogate pair at any place, between any other characters. */
  const half = fc
    .tuple(
      fc.string({ unit: fc.constantFrom("a", "😀", "\u0000"), maxLength: 3 }),
      fc.constantFrom("\ud83d", "\ude00", "\ude00\ud83d"),
      fc.string({ unit: fc.constantFrom("a", "é"), maxLength: 3 }),
    )
    .map((parts) => parts.join(""));
  const ANY = z.toJSONSchema(z.record(z.string(), z.unknown())) as never;
  const RUNS = { numRuns: sizeOf("WAITS_RUNS", 40) };

  it("L1: what was asked and decided is read as it was written", async () => {
    const stub = givenWaits();
    await inside(stub, ({ waits, approvals }) =>
      fc.assert(
        fc.asyncProperty(fc.tuple(whole, whole, whole), async ([one, other, third]) => {
          const workflow = { name: one, id: other, stepName: third };
          const request = approvalRequest({ title: one, data: { [other]: third }, schema: ANY });
          const asked = ask({ request, workflow, idempotencyKey: one + crypto.randomUUID() });
          const { waitId } = await waits.open(asked);
          expect((await waits.open(asked)).waitId).toBe(waitId);
          const decision = { by: one, reason: other, payload: { [third]: other } };
          await approvals.grant(waitId, decision);
          const expected = { title: one, data: { [other]: third }, workflow, ...decision };
          expect(await approvals.inspect(waitId)).toMatchObject(expected);
          const listed = await approvals.list({ workflowId: other, status: "approved" });
          expect(listed.items.map(({ approvalId }) => approvalId)).toContain(waitId);
        }),
        RUNS,
      ),
    );
  });

  it("L1: half of a character in any text is refused, and nothing is stored", async () => {
    const stub = givenWaits();
    const id = await given(stub, ANY);
    await inside(stub, ({ approvals }) =>
      fc.assert(
        fc.asyncProperty(half, async (text) => {
          const calls: Record<string, () => Promise<unknown>> = {
            by: () => approvals.reject(id, { by: text }),
            reason: () => approvals.grant(id, { payload: {}, reason: text }),
            payload: () => approvals.grant(id, { payload: { deep: [{ [text]: 1 }] } }),
            approvalId: () => approvals.inspect(text),
            workflowId: () => approvals.list({ workflowId: text }),
            cursor: () => approvals.list({ cursor: text }),
          };
          for (const [field, call] of Object.entries(calls)) {
            await expect(call()).rejects.toMatchObject({
              name: "InvalidApprovalError",
              field,
              message: expect.stringMatching(/half of (a character|one)/),
            });
          }
        }),
        RUNS,
      ),
    );
    expect(await rowsOf(stub)).toMatchObject([{ wait_id: id, status: "open" }]);
  });
});

describe("W2: a decision about a workflow whose status is not known", () => {
  it.each<[string, () => Promise<boolean>]>([
    ["is never told", () => new Promise(() => {})],
    ["cannot be read", () => Promise.reject(new Error("the engine is down"))],
  ])("W2: counts where the status %s", async (_, isGone) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const stub = givenWaits({ isGone });
    const id = await given(stub);
    expect(await at(stub, (approvals) => approvals.grant(id))).toMatchObject({
      outcome: "decided",
    });
    expect(logged).toHaveBeenCalledWith(
      expect.stringMatching(/the status of workflow W instance-\S+ could not be read/),
      expect.any(Error),
    );
    logged.mockRestore();
  });
});
