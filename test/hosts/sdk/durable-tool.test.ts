/** `durableTool()`: its types, its bounds, and what it stores. The contract tests it with crashes on every host. */

import {
  asSchema,
  type InferToolInput,
  type InferToolOutput,
  jsonSchema,
  type ToolSet,
  tool,
} from "ai";
import { type } from "arktype";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { zod3 } from "../../../src/core/schema/zod3.ts";
import { durableOf, durableTool, type ToolStep } from "../../../src/hosts/sdk/durable-tool.ts";
import { recordedOf, safeToRepeat } from "../../../src/hosts/sdk/tools.ts";
import type { Turn, TurnEnd } from "../../../src/submissions/host.ts";
import type { AttemptRef } from "../../../src/submissions/states.ts";
import { givenLedger, until } from "../../support/given.ts";
import { playing, submit, within } from "../../support/ledger.ts";
import type { LedgerObject } from "../../support/objects/ledger-object.ts";

const inputSchema = z.object({ order: z.string() });
const options = { toolCallId: "call", messages: [], context: undefined };

/** Calls a tool in the first turn of a ledger, and repeats the turn's call as after a crash. */
async function inTurn(
  execute: (step: ToolStep, idempotencyKey: string) => Promise<unknown>,
  check: (call: (isAgain?: boolean) => Promise<unknown>, rows: () => number) => Promise<void>,
): Promise<void> {
  const stub = givenLedger();
  let checked: PromiseSettledResult<void> | undefined;
  await playing(stub, "s", async (turn, object) => {
    const ref = turn.begin();
    const act = durableTool({
      name: "act",
      inputSchema,
      execute: (_input, { step, idempotencyKey }) => execute(step, idempotencyKey),
    });
    const call = async (isAgain = false) => {
      const calls = object.submissions.turns.toolCalls(ref, isAgain ? () => [] : undefined);
      const { act: recorded } = recordedOf({ act }, calls);
      return recorded?.execute?.({ order: "1" }, options as never);
    };
    const rows = () => object.rowsIn("perdure_tool_steps");
    [checked] = await Promise.allSettled([check(call, rows)]);
    return { outcome: "completed" };
  });
  await submit(stub, "x", { submissionId: "s" });
  // A promise that the object resolves would go on in the object, and the runtime goes down when that is reset.
  await until(() => checked !== undefined);
  if (checked?.status === "rejected") throw checked.reason;
}

describe("a call of a durable tool", () => {
  it("L6: a finished step is not repeated, and its result is what JSON keeps of it", async () => {
    const ran: string[] = [];
    const results: unknown[] = [];
    let isCut = true;
    await inTurn(
      async (step, key) => {
        const at = await step.do("one", ({ idempotencyKey }) => {
          ran.push(idempotencyKey);
          return { at: 7, left: undefined };
        });
        results.push(at, await step.do("none", () => undefined));
        if (isCut) await new Promise(() => {});
        return key;
      },
      async (call, rows) => {
        void call();
        await until(() => results.length === 2);
        isCut = false;
        expect(ran).toEqual([`${await call(true)}/one`]);
        const result = { at: 7 };
        expect(results).toEqual([result, undefined, result, undefined]);
        expect(rows()).toBe(2);
      },
    );
  });

  it.each([
    ["", "1 to 100 characters"],
    ["x".repeat(101), "1 to 100 characters"],
    ["\ud800", "an unpaired surrogate"],
    [7, "1 to 100 characters"],
  ])("refuses the step name %j", async (name, message) => {
    let ran = 0;
    await inTurn(
      (step) => step.do(name as string, () => ran++),
      async (call) => {
        await expect(call()).rejects.toMatchObject({
          name: "InvalidToolStepError",
          message: expect.stringContaining(message),
        });
        expect(ran).toBe(0);
      },
    );
  });

  it.each([null, 7, "work", Promise.resolve(1)])("refuses the work %s", async (work) => {
    await inTurn(
      (step) => step.do("pay", work as never),
      async (call) => {
        await expect(call()).rejects.toMatchObject({
          name: "InvalidToolStepError",
          message: expect.stringMatching(/^Invalid work of step "pay" .*: expected a function/),
        });
      },
    );
  });

  it("refuses a name that is used twice in a call", () =>
    inTurn(
      async (step) => {
        await step.do("pay", () => 1);
        return step.do("pay", () => 2);
      },
      async (call) => {
        await expect(call()).rejects.toThrow("this call has a step of that name");
      },
    ));

  it.each([
    ["a bigint", () => 1n, "is a bigint, which JSON cannot hold"],
    ["a function", () => () => 1, "is a function, which JSON cannot hold"],
    ["a date", () => ({ at: new Date(0) }), ".at is a Date, which JSON cannot hold"],
    ["a map", () => [new Map()], "[0] is a Map, which JSON cannot hold"],
    ["not a number", () => Number.NaN, "is NaN, which JSON cannot hold"],
    ["1,000,001 bytes", () => "x".repeat(999_999), "expected at most 1000000 bytes"],
  ])("refuses a result that is %s", async (_, result, message) => {
    await inTurn(
      (step) => step.do<unknown>("make", result),
      async (call, rows) => {
        await expect(call()).rejects.toMatchObject({
          name: "InvalidToolStepError",
          message: expect.stringContaining(message),
        });
        expect(rows()).toBe(0);
      },
    );
  });

  it("has at most 100 steps", () =>
    inTurn(
      async (step) => {
        for (let n = 0; n <= 100; n++) await step.do(`step ${n}`, () => n);
      },
      async (call, rows) => {
        await expect(call()).rejects.toMatchObject({ name: "ToolStepLimitError" });
        expect(rows()).toBe(100);
      },
    ));

  it("counts steps that run at the same time", () => {
    let ran = 0;
    return inTurn(
      async (step) => {
        const names = Array.from({ length: 101 }, (_, n) => `step ${n}`);
        const ends = await Promise.allSettled(
          names.map((name) => step.do(name, async () => ran++)),
        );
        return ends.flatMap((end) => (end.status === "rejected" ? end.reason.name : []));
      },
      async (call, rows) => {
        expect(await call()).toEqual(["ToolStepLimitError"]);
        expect([ran, rows()]).toEqual([100, 100]);
      },
    );
  });

  it("has keys that no other agent has for a submission of the same id", async () => {
    const keys: string[] = [];
    const once = () =>
      inTurn(
        async (_, key) => void keys.push(key),
        async (call) => void (await call()),
      );
    await once();
    await once();
    expect(new Set(keys).size).toBe(2);
  });

  it.each([
    ["throws", false],
    ["catches the refusal and returns", true],
  ])("L6: stays interrupted when its tool %s after the attempt is over", async (_, catches) => {
    const stub = givenLedger();
    const done = Promise.withResolvers<unknown>();
    await playing(stub, "s", async (turn, object) => {
      const ref = turn.begin();
      const act = durableTool({
        name: "act",
        inputSchema,
        async execute(_input, { step }) {
          await object.submissions.cancel("s");
          const refused = step.do("after", () => 1);
          return catches ? refused.catch(() => "failed") : refused;
        },
      });
      const calls = object.submissions.turns.toolCalls(ref);
      const { act: recorded } = recordedOf({ act }, calls);
      const call = recorded?.execute?.({ order: "1" }, options as never);
      await Promise.resolve(call).then(done.resolve, done.resolve);
      return { outcome: "aborted" };
    });
    await submit(stub, "x", { submissionId: "s" });
    await done.promise;
    await within(stub, (_object, ctx) => {
      const query = "SELECT outcome FROM perdure_tool_calls";
      expect(ctx.storage.sql.exec(query).toArray()).toEqual([{ outcome: null }]);
    });
  });

  it("L6: continues in a retry of its submission, under the same key", async () => {
    const stub = givenLedger();
    const keys: string[] = [];
    const ran: string[] = [];
    const done = Promise.withResolvers<unknown>();
    const play = async (turn: Turn, object: LedgerObject): Promise<TurnEnd> => {
      const ref = turn.begin();
      const act = durableTool({
        name: "act",
        inputSchema,
        async execute(_input, { step, idempotencyKey }) {
          keys.push(idempotencyKey);
          await step.do("before", () => void ran.push("before"));
          if (keys.length === 1) await object.submissions.cancel("s");
          await step.do("after", () => void ran.push("after"));
          return "done";
        },
      });
      const calls = object.submissions.turns.toolCalls(ref, () => []);
      const { act: recorded } = recordedOf({ act }, calls);
      const output = Promise.resolve(recorded?.execute?.({ order: "1" }, options as never));
      if (keys.length === 0) await output.catch(() => {});
      else await output.then(done.resolve, done.reject);
      return { outcome: "completed" };
    };
    await playing(stub, "s", play);
    await submit(stub, "x", { submissionId: "s" });
    await stub.wait("s");
    await within(stub, async (object) => {
      object.turns.run = (turn) => play(turn, object);
      await object.submissions.retry("s");
    });
    expect(await done.promise).toBe("done");
    expect(new Set(keys).size).toBe(1);
    expect([keys.length, ran]).toEqual([2, ["before", "after"]]);
  });

  it.each([
    ["it succeeds", "succeeds", "after"],
    ["it fails", "fails", "after"],
    ["it succeeds before the next attempt asks", "succeeds", "before"],
  ])(
    "L6: a step that still runs for an earlier attempt is waited for: %s",
    async (_, how, when) => {
      const stub = givenLedger();
      const ran: string[] = [];
      const results: unknown[] = [];
      const begun = Promise.withResolvers<void>();
      const slow = Promise.withResolvers<void>();
      const cancelled = Promise.withResolvers<void>();
      const done = Promise.withResolvers<unknown>();
      const play = async (turn: Turn, object: LedgerObject): Promise<TurnEnd> => {
        const ref = turn.begin();
        const attempt = results.length;
        results.push(undefined);
        const act = durableTool({
          name: "act",
          inputSchema,
          async execute(_input, { step }) {
            results[attempt] = await step.do("pay", async () => {
              ran.push(`pay ${attempt}`);
              begun.resolve();
              if (attempt === 0) await slow.promise;
              if (attempt === 0 && how === "fails") throw new Error("declined");
              return attempt;
            });
            return "done";
          },
        });
        const calls = object.submissions.turns.toolCalls(ref, () => []);
        const { act: recorded } = recordedOf({ act }, calls);
        if (attempt > 0 && when === "before") {
          slow.resolve();
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        const output = Promise.resolve(recorded?.execute?.({ order: "1" }, options as never));
        if (attempt === 0) void output.catch(() => {});
        else await output.then(done.resolve, done.reject);
        if (attempt > 0) return { outcome: "completed" };
        await cancelled.promise;
        return { outcome: "aborted" };
      };
      await playing(stub, "s", play);
      await submit(stub, "x", { submissionId: "s" });
      await begun.promise;
      await within(stub, async (object) => {
        await object.submissions.cancel("s");
        cancelled.resolve();
        object.turns.run = (turn) => play(turn, object);
        await object.submissions.retry("s");
        await until(() => results.length === 2);
        await new Promise((resolve) => setTimeout(resolve, 50));
        expect(ran).toEqual(["pay 0"]);
        slow.resolve();
        expect(await done.promise).toBe("done");
      });
      const isKept = how === "succeeds";
      expect(results[1]).toBe(isKept ? 0 : 1);
      expect(ran).toEqual(isKept ? ["pay 0"] : ["pay 0", "pay 1"]);
    },
  );

  it("L2: a step of an attempt that is over does not run", async () => {
    const stub = givenLedger();
    const ran: string[] = [];
    const late = Promise.withResolvers<unknown>();
    await playing(stub, "s", async (turn, object) => {
      const ref = turn.begin();
      const act = durableTool({
        name: "act",
        inputSchema,
        async execute(_input, { step }) {
          await step.do("before", () => void ran.push("before"));
          await object.submissions.cancel("s");
          await step.do("after", () => void ran.push("after"));
        },
      });
      const { act: recorded } = recordedOf({ act }, object.submissions.turns.toolCalls(ref));
      const call = recorded?.execute?.({ order: "1" }, options as never);
      await Promise.resolve(call).then(late.resolve, late.resolve);
      return { outcome: "aborted" };
    });
    await submit(stub, "x", { submissionId: "s" });
    expect(await late.promise).toMatchObject({ name: "TurnRefused" });
    expect(ran).toEqual(["before"]);
  });

  it("deletes its steps with its submission", async () => {
    const stub = givenLedger();
    await playing(stub, "s", async (turn, object) => {
      await stepIn(object, turn.begin());
      return { outcome: "completed" };
    });
    await submit(stub, "x", { submissionId: "s" });
    await stub.wait("s");
    await within(stub, (object) => expect(object.rowsIn("perdure_tool_steps")).toBe(1));
    await within(stub, async (object) => {
      await object.submissions.delete("s");
      expect(object.rowsIn("perdure_tool_steps")).toBe(0);
    });
  });
});

async function stepIn({ submissions }: LedgerObject, ref: AttemptRef): Promise<void> {
  const decision = await submissions.turns
    .toolCalls(ref)
    .start({ toolCallId: "c", toolName: "act", input: {}, isDurable: true });
  if (decision.action === "run") await decision.steps?.run("one", async () => "1");
}

describe("durableTool()", () => {
  it("runs its steps without a record outside of a submission's turn", async () => {
    const keys: string[] = [];
    const act = durableTool({
      name: "act",
      inputSchema,
      execute: ({ order }, { step, idempotencyKey }) => {
        keys.push(idempotencyKey);
        return step.do("one", () => `order ${order}`);
      },
    });
    expect(await act.execute({ order: "7" }, options)).toBe("order 7");
    expect(keys).toEqual(["call"]);
  });

  it("passes the other settings of a tool on, and keeps its steps as a copy", () => {
    const needsApproval = true;
    const act = durableTool({
      name: "act",
      description: "Acts",
      needsApproval,
      inputSchema,
      execute: () => 1,
    });
    expect(act).toMatchObject({ description: "Acts", needsApproval, inputSchema });
    expect(durableOf(safeToRepeat({ ...act }))?.name).toBe("act");
    expect(durableOf(tool({ inputSchema, execute: () => 1 }))).toBeUndefined();
  });

  const execute: () => number = () => 1;

  it.each([
    [
      { inputSchema, execute },
      'Missing option "name" in options of durableTool(): expected the tool\'s key',
    ],
    [{ name: "a b", inputSchema, execute }, 'Invalid name "a b"'],
    [
      { name: "act", execute },
      'Missing option "inputSchema" in options of durableTool(): expected a schema',
    ],
    [
      { name: "act", inputSchema },
      'Missing option "execute" in options of durableTool(): expected a function',
    ],
    [{ name: "act", execute, inputSchema: 5 }, "Invalid inputSchema 5: expected a schema"],
    [{ name: "act", inputSchema, execute, description: 5 }, "Invalid description 5"],
    [{ name: "act", inputSchema, execute, needsAproval: true }, 'Unknown option "needsAproval"'],
    [undefined, "Invalid options of durableTool() null"],
  ])("refuses %o", (given, message) => {
    expect(() => durableTool(given as never)).toThrow(message);
  });

  it("infers the input from the schema, and the output from the function", async () => {
    const zod = durableTool({
      name: "act",
      inputSchema,
      execute: async ({ order }, { step }) => ({ id: await step.do("id", () => order.length) }),
    });
    expectTypeOf<InferToolInput<typeof zod>>().toEqualTypeOf<{ order: string }>();
    expectTypeOf<InferToolOutput<typeof zod>>().toEqualTypeOf<{ id: number }>();
    const schema = jsonSchema<{ n: number }>({ type: "object" });
    const json = durableTool({ name: "act", inputSchema: schema, execute: ({ n }) => n });
    expectTypeOf<InferToolInput<typeof json>>().toEqualTypeOf<{ n: number }>();
    const old = durableTool({
      name: "act",
      inputSchema: z3.object({ old: z3.boolean() }),
      execute: ({ old }) => old,
    });
    // The AI SDK reads it, with and without zod3().
    const wrapped = { ...old, inputSchema: zod3(z3.object({ old: z3.boolean() })) };
    for (const { inputSchema: read } of [old, wrapped]) {
      expect(await asSchema(read).jsonSchema).toMatchObject({ required: ["old"] });
    }
    expectTypeOf<InferToolInput<typeof old>>().toEqualTypeOf<{ old: boolean }>();
    const standard = durableTool({
      name: "act",
      inputSchema: type({ size: "number" }),
      execute: ({ size }) => size,
    });
    expectTypeOf<InferToolInput<typeof standard>>().toEqualTypeOf<{ size: number }>();
    expectTypeOf({ zod, json, old, standard }).toExtend<ToolSet>();
  });
});
