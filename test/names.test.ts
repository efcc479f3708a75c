import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { digest } from "../src/core/ids.ts";
import { type PromptIdentity, promptKey, promptStepName } from "../src/workflow/names.ts";

const PARTS = ["submit", "wait", "expire", "answer-0", "answer-12"] as const;
const RUNS = { numRuns: 300 };

/** Any text: short ones full of what could be mistaken for a border, and long ones of any script. */
const text = fc.oneof(
  fc.string({
    unit: fc.constantFrom("a", ":", "%", "~", "3", "A", "\u0000", "é", "😀"),
    maxLength: 6,
  }),
  fc.string({ unit: "binary", maxLength: 10_000, size: "max" }),
  fc.string({ unit: "grapheme", maxLength: 1_000, size: "max" }),
  // Long names that differ only at their end.
  fc
    .string({ unit: fc.constantFrom("x", "y", "😀"), minLength: 1, maxLength: 4 })
    .map((end) => "n".repeat(300) + end),
);
const key = fc.option(text, { nil: undefined });
const identity: fc.Arbitrary<PromptIdentity> = fc.record({
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
    fc.constantFrom("all", "workflowName", "workflowId", "stepName", "key"),
  )
  .map(([one, other, differsIn]): [PromptIdentity, PromptIdentity] => [
    one,
    differsIn === "all" ? other : { ...one, [differsIn]: other[differsIn as keyof PromptIdentity] },
  ]);

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

describe("promptKey", () => {
  it("W1 is the same for the same prompt, and for no two different ones", async () => {
    await fc.assert(
      fc.asyncProperty(pair, async ([one, other]) => {
        expect(await promptKey({ ...one })).toBe(await promptKey(one));
        expect((await promptKey(one)) === (await promptKey(other))).toBe(same(one, other));
      }),
      RUNS,
    );
  });

  it("W1 tells a border from a colon in a part", async () => {
    const parts = { workflowName: "w", workflowId: "i", key: undefined };
    const keys = await Promise.all([
      promptKey({ ...parts, stepName: "a:b" }),
      promptKey({ ...parts, workflowId: "i:a", stepName: "b" }),
      promptKey({ ...parts, stepName: "a", key: "b" }),
      promptKey({ ...parts, stepName: `a:${await digest("b")}` }),
      promptKey({ ...parts, stepName: "a%3Ab" }),
    ]);
    expect(new Set(keys).size).toBe(5);
  });

  it("W1 a key is not the same as no key, even an empty one", async () => {
    const parts = { workflowName: "w", workflowId: "i", stepName: "s" };
    expect(await promptKey({ ...parts, key: "" })).not.toBe(
      await promptKey({ ...parts, key: undefined }),
    );
  });

  it("W1 takes any text at all, also half of a surrogate pair in a name", async () => {
    const cut = "😀".slice(0, 1);
    const parts = { workflowName: "w", workflowId: "i", stepName: cut, key: undefined };
    await expect(promptKey(parts)).resolves.toEqual(expect.any(String));
  });

  it("W1 two keys that differ in half of a surrogate pair are different", async () => {
    const parts = { workflowName: "w", workflowId: "i", stepName: "s" };
    const [one, other] = await Promise.all([
      promptKey({ ...parts, key: "😀".slice(0, 1) }),
      promptKey({ ...parts, key: "😀".slice(1) }),
    ]);
    expect(one).not.toBe(other);
  });
});

describe("promptStepName", () => {
  const step = fc.record({ stepName: text, key });

  it("W1 is never longer than the platform's 256 characters", async () => {
    await fc.assert(
      fc.asyncProperty(step, fc.constantFrom(...PARTS), async (of, part) => {
        const name = await promptStepName(of, part);
        expect(name.length).toBeLessThanOrEqual(256);
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
          promptStepName({ stepName: "s".repeat(length), key: undefined }, part),
          promptStepName({ stepName: "s".repeat(length), key: "k" }, part),
          promptStepName({ stepName: `${"s".repeat(length)}2`, key: "k" }, part),
        ]);
        expect(new Set(names).size).toBe(3);
        for (const name of names) expect(name.length).toBeLessThanOrEqual(256);
      }
    },
  );

  it("W1 is the same for the same step, and for no two different ones", async () => {
    await fc.assert(
      fc.asyncProperty(step, step, fc.boolean(), async (one, other, isNameShared) => {
        const second = isNameShared ? { ...one, key: other.key } : other;
        for (const part of PARTS) {
          const isSame = (await promptStepName(one, part)) === (await promptStepName(second, part));
          expect(isSame).toBe(same(one, second));
        }
      }),
      RUNS,
    );
  });

  it("W3 the parts of one step are different steps", async () => {
    await fc.assert(
      fc.asyncProperty(step, async (of) => {
        expect(new Set(await Promise.all(PARTS.map((part) => promptStepName(of, part)))).size).toBe(
          PARTS.length,
        );
      }),
      RUNS,
    );
  });

  it("W1 a step named like another one with a key is another step", async () => {
    const keyed = await promptStepName({ stepName: "s", key: "k" }, "wait");
    const named = await promptStepName(
      { stepName: `s:${await digest("k")}`, key: undefined },
      "wait",
    );
    expect(named).not.toBe(keyed);
  });

  it("W1 a step named like a shortened one is another step", async () => {
    const long = await promptStepName({ stepName: "n".repeat(300), key: undefined }, "wait");
    const named = await promptStepName(
      { stepName: long.replace(/:wait$/, ""), key: undefined },
      "wait",
    );
    expect(named).not.toBe(long);
  });

  it("shortens between characters, not within one", async () => {
    for (const lead of ["", "n"]) {
      const name = await promptStepName(
        { stepName: lead + "😀".repeat(200), key: undefined },
        "wait",
      );
      expect(name.isWellFormed()).toBe(true);
    }
  });
});

describe("digest", () => {
  it("has 22 characters that are safe everywhere, for any text", async () => {
    await fc.assert(
      fc.asyncProperty(text, async (any) => {
        expect(await digest(any)).toMatch(/^[A-Za-z0-9_-]{22}$/);
      }),
      RUNS,
    );
  });
});
