import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { partName } from "../../src/core/steps.ts";
import { digest } from "../../src/core/text.ts";
import {
  type BatchIdentity,
  batchEventType,
  batchId,
  batchItemKeys,
  batchStepName,
  type InstanceIdentity,
  stepKey,
} from "../../src/workflow/names.ts";
import { ANY_CHARACTER } from "../support/characters.ts";
import { sizeOf } from "../support/sizes.ts";

const KINDS = ["prompt", "approval", "agent-tool", "codemode"] as const;
const PARTS = ["submit", "wait", "close", "refuse", "result-0", "result-12"] as const;
const kind = "prompt" as const;
const RUNS = { numRuns: sizeOf("NAMES_RUNS", 40) };

/** Any text: short ones full of what could be mistaken for a border, and long ones of any script. */
const text = fc.oneof(
  fc.string({
    unit: fc.constantFrom("a", ":", "%", "~", "3", "A", "\u0000", "é", "😀"),
    maxLength: 6,
  }),
  fc.string({ unit: ANY_CHARACTER, maxLength: 10_000, size: "max" }),
  fc.string({ unit: "grapheme", maxLength: 1_000, size: "max" }),
  // Long names that differ only at their end.
  fc
    .string({ unit: fc.constantFrom("x", "y", "😀"), minLength: 1, maxLength: 4 })
    .map((end) => "n".repeat(300) + end),
);
const key = fc.option(text, { nil: undefined });
const identity: fc.Arbitrary<InstanceIdentity> = fc.record({
  kind: fc.constantFrom(...KINDS),
  workflowName: text,
  workflowId: text,
  stepName: text,
  key,
});

/** Two identities, equal in all but one of their parts half of the time. */
const pair = fc
  .tuple(
    identity,
    identity,
    fc.constantFrom("all", "kind", "workflowName", "workflowId", "stepName", "key"),
  )
  .map(([one, other, differsIn]): [InstanceIdentity, InstanceIdentity] => [
    one,
    differsIn === "all"
      ? other
      : { ...one, [differsIn]: other[differsIn as keyof InstanceIdentity] },
  ]);

/** What the platform asks of a step name: 256 characters, and no control characters. */
function isTaken(name: string): boolean {
  return name.length <= 256 && !/\p{Cc}/u.test(name) && name.isWellFormed();
}

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

describe("stepKey", () => {
  it("W1: equal prompts have equal keys, and different prompts different ones", async () => {
    await fc.assert(
      fc.asyncProperty(pair, async ([one, other]) => {
        expect(await stepKey({ ...one })).toBe(await stepKey(one));
        expect((await stepKey(one)) === (await stepKey(other))).toBe(same(one, other));
      }),
      RUNS,
    );
  });

  it("W1: tells a border from a colon in a part", async () => {
    const parts = { kind, workflowName: "w", workflowId: "i", key: undefined };
    const keys = await Promise.all([
      stepKey({ ...parts, stepName: "a:b" }),
      stepKey({ ...parts, workflowId: "i:a", stepName: "b" }),
      stepKey({ ...parts, stepName: "a", key: "b" }),
      stepKey({ ...parts, stepName: `a:${await digest("b")}` }),
      stepKey({ ...parts, stepName: "a%3Ab" }),
    ]);
    expect(new Set(keys).size).toBe(5);
  });

  it("W1: a key is not the same as no key, even an empty one", async () => {
    const parts = { kind, workflowName: "w", workflowId: "i", stepName: "s" };
    expect(await stepKey({ ...parts, key: "" })).not.toBe(
      await stepKey({ ...parts, key: undefined }),
    );
  });

  it("W1: a key can be made of any text, also half of a surrogate pair", () => {
    const cut = "😀".slice(0, 1);
    const parts = { kind, workflowName: "w", workflowId: "i", stepName: cut, key: undefined };
    expect(stepKey(parts)).toEqual(expect.any(String));
  });

  it("W1: two keys that differ in half of a surrogate pair are different", async () => {
    const parts = { kind, workflowName: "w", workflowId: "i", stepName: "s" };
    const [one, other] = await Promise.all([
      stepKey({ ...parts, key: "😀".slice(0, 1) }),
      stepKey({ ...parts, key: "😀".slice(1) }),
    ]);
    expect(one).not.toBe(other);
  });
});

describe("partName", () => {
  const step = fc.record({ kind: fc.constantFrom(...KINDS), stepName: text, key });

  it("W1: a step with any name gets a name that the platform takes", async () => {
    await fc.assert(
      fc.asyncProperty(step, fc.constantFrom(...PARTS), async (of, part) => {
        const name = await partName(of, part);
        expect(isTaken(name)).toBe(true);
        expect(name.length).toBeGreaterThan(part.length);
      }),
      RUNS,
    );
  });

  it.each([200, 233, 248, 249, 250, 255, 256, 257])(
    "a step name of %i characters",
    async (length) => {
      for (const part of PARTS) {
        const names = await Promise.all([
          partName({ kind, stepName: "s".repeat(length), key: undefined }, part),
          partName({ kind, stepName: "s".repeat(length), key: "k" }, part),
          partName({ kind, stepName: `${"s".repeat(length)}2`, key: "k" }, part),
        ]);
        expect(new Set(names).size).toBe(3);
        for (const name of names) expect(name.length).toBeLessThanOrEqual(256);
      }
    },
  );

  it("W1: is the same for the same step, and for no two different ones", async () => {
    await fc.assert(
      fc.asyncProperty(step, step, fc.boolean(), async (one, other, isNameShared) => {
        const second = isNameShared ? { ...one, key: other.key } : other;
        for (const part of PARTS) {
          const isSame = (await partName(one, part)) === (await partName(second, part));
          expect(isSame).toBe(same(one, second));
        }
      }),
      RUNS,
    );
  });

  it("W3: the parts of one step are different steps", async () => {
    await fc.assert(
      fc.asyncProperty(step, async (of) => {
        expect(new Set(await Promise.all(PARTS.map((part) => partName(of, part)))).size).toBe(
          PARTS.length,
        );
      }),
      RUNS,
    );
  });

  it("W1: a step named like another one with a key is another step", async () => {
    const keyed = await partName({ kind, stepName: "s", key: "k" }, "wait");
    const named = await partName(
      { kind, stepName: `s:${await digest("k")}`, key: undefined },
      "wait",
    );
    expect(named).not.toBe(keyed);
  });

  it("W1: a step named like a shortened one is another step", async () => {
    const long = await partName({ kind, stepName: "n".repeat(300), key: undefined }, "wait");
    const named = await partName(
      { kind, stepName: long.replace(/:wait$/, ""), key: undefined },
      "wait",
    );
    expect(named).not.toBe(long);
  });

  it("shortens between characters, not within one", async () => {
    for (const lead of ["", "n"]) {
      const name = await partName(
        { kind, stepName: lead + "😀".repeat(200), key: undefined },
        "wait",
      );
      expect(name.isWellFormed()).toBe(true);
    }
  });
});

describe("a batch", () => {
  const keys = fc.uniqueArray(text, { maxLength: 4 });
  const batch = fc.record({ workflowName: text, workflowId: text, stepName: text, keys });
  const pairs = fc
    .tuple(batch, batch, fc.constantFrom("all", "workflowName", "workflowId", "stepName", "keys"))
    .map(([one, other, differsIn]): [BatchIdentity, BatchIdentity] => [
      one,
      differsIn === "all"
        ? other
        : { ...one, [differsIn]: other[differsIn as keyof BatchIdentity] },
    ]);
  const parts = [
    "check-0",
    "wait",
    "close",
    "submit-0",
    "results-12",
    "item-9999-result-63",
  ] as const;

  it("W1: is the same for the same step and items, and for no two different ones", async () => {
    await fc.assert(
      fc.asyncProperty(pairs, async ([one, other]) => {
        expect(await batchId({ ...one })).toBe(await batchId(one));
        expect((await batchId(one)) === (await batchId(other))).toBe(same(one, other));
      }),
      RUNS,
    );
  });

  it("W1: no two items share an idempotency key, and no item that of a prompt", async () => {
    await fc.assert(
      fc.asyncProperty(pairs, key, async ([one, other], promptsKey) => {
        const [ones, others] = await Promise.all([batchItemKeys(one), batchItemKeys(other)]);
        const prompt = await stepKey({ kind, ...one, key: promptsKey });
        expect(new Set([...ones, prompt]).size).toBe(one.keys.length + 1);
        const { keys: _, ...step } = one;
        const isSameStep = same(step, { ...other, keys: undefined });
        for (const [index, itemKey] of others.entries()) {
          const isSame = isSameStep && one.keys.includes(other.keys[index] ?? "");
          expect(ones.includes(itemKey)).toBe(isSame);
        }
        for (const itemKey of ones) expect(itemKey.length).toBeLessThanOrEqual(600);
      }),
      RUNS,
    );
  });

  it("W1: step names are short enough, different for each part and batch, and no prompt's", async () => {
    await fc.assert(
      fc.asyncProperty(text, key, fc.tuple(text, text), async (stepName, promptsKey, ids) => {
        const batches = await Promise.all(ids.map((id) => digest(id)));
        const names = batches.flatMap((id) =>
          parts.map((part) => batchStepName(stepName, id, part)),
        );
        expect(new Set(names).size).toBe(new Set(batches).size * parts.length);
        expect(names.filter((name) => !isTaken(name))).toEqual([]);
        const prompts = PARTS.map((part) => partName({ kind, stepName, key: promptsKey }, part));
        for (const name of await Promise.all(prompts)) expect(names).not.toContain(name);
      }),
      RUNS,
    );
  });

  it("W3: the event type is that of one run alone, and one that the platform takes", async () => {
    const types = await Promise.all([
      batchEventType("a", "b"),
      batchEventType("a", "c"),
      batchEventType("ab", ""),
    ]);
    expect(new Set(types).size).toBe(3);
    for (const type of types) expect(type).toMatch(/^[A-Za-z0-9_-]{1,100}$/);
  });
});

describe("digest", () => {
  it("a digest has 22 URL-safe characters for any text", async () => {
    await fc.assert(
      fc.asyncProperty(text, async (any) => {
        expect(await digest(any)).toMatch(/^[A-Za-z0-9_-]{22}$/);
      }),
      RUNS,
    );
  });
});
