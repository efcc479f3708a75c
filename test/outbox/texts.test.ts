/** What a caller says: texts that storage would change, and times that no alarm reaches. Refused at the call. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type DeliveryPolicy,
  type Destination,
  dedupe,
  type Outbox,
} from "../../src/outbox/index.ts";
import { ANY_CHARACTER } from "../support/characters.ts";
import { givenLedger, until } from "../support/given.ts";
import { within } from "../support/ledger.ts";
import { givenListening, inside, putAll, workflowNamed } from "../support/outbox.ts";

const HALF = "issue-👩".slice(0, 7);
const HOOK: Destination = {
  kind: "webhook",
  url: "https://example.com/hook",
  secrets: ["HOOK_SECRET"],
};
const refusalOf = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  return undefined;
};

describe("An unpaired surrogate is refused at the call", () => {
  it("O1: put() refuses it in an id, and stores nothing", async () => {
    const { box } = givenListening();
    await inside(box, async ({ lifecycle, outbox }) => {
      await lifecycle.start();
      const error = refusalOf(() => outbox.put(workflowNamed("plain"), 1, { id: HALF }));
      expect(error?.name).toBe("InvalidEventError");
      expect(error?.message).toMatch(/unpaired surrogate/);
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
    });
  });

  const verbs: Record<string, (outbox: Outbox) => Promise<unknown>> = {
    inspect: (outbox) => outbox.inspect(HALF),
    read: (outbox) => outbox.read(HALF),
    redrive: (outbox) => outbox.redrive(HALF),
    deleteDeadLetter: (outbox) => outbox.deleteDeadLetter(HALF),
    listDeadLetters: (outbox) => outbox.listDeadLetters({ cursor: `1:${HALF}` }),
    countDeadLetters: (outbox) => outbox.countDeadLetters({ destination: workflowNamed(HALF) }),
    redriveAll: (outbox) => outbox.redriveAll({ destination: workflowNamed(HALF) }),
    inspectEndpoint: (outbox) => outbox.inspectEndpoint(`https://example.com/${HALF}`),
    disableEndpoint: (outbox) => outbox.disableEndpoint(`https://example.com/${HALF}`),
    "disableEndpoint, its reason": (outbox) => outbox.disableEndpoint("https://example.com", HALF),
    enableEndpoint: (outbox) => outbox.enableEndpoint(`https://example.com/${HALF}`),
  };

  it.each(Object.entries(verbs))("O3: %s refuses it", async (_, verb) => {
    const { box } = givenListening();
    await inside(box, async ({ lifecycle, outbox }) => {
      await lifecycle.start();
      await expect(verb(outbox)).rejects.toThrow(/surrogate|cursor/);
    });
  });

  it("O2: dedupe() refuses it, so that no second effect is dropped", async () => {
    const { box } = givenListening();
    await inside(box, (_, ctx) => {
      const once = dedupe(ctx.storage);
      const [first, second] = ["\ud83d", "\ud83e"];
      for (const id of [first, second]) {
        expect(() => once(id ?? "", () => {})).toThrow(/unpaired surrogate/);
      }
    });
  });

  it("O1: every accepted id, destination and dedupe id is stored unchanged", async () => {
    const texts = fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 20 });
    const halves = fc.constantFrom("", "\ud83d", "\ude00", "a\ud800b");
    const text = fc.tuple(texts, halves, texts).map((parts) => parts.join(""));
    const { box, came } = givenListening();
    await inside(box, async ({ lifecycle, outbox }, ctx) => {
      await lifecycle.start();
      const once = dedupe(ctx.storage);
      const accepted = new Set<string>();
      fc.assert(
        fc.property(text, text, (id, instance) => {
          const error = refusalOf(() => outbox.put(workflowNamed(instance), id, { id }));
          const isRight = id.isWellFormed() && instance.isWellFormed();
          expect(error === undefined || /for another destination/.test(error.message)).toBe(
            isRight,
          );
          if (error === undefined) accepted.add(id);
          expect(refusalOf(() => once(id, () => {})) === undefined).toBe(id.isWellFormed());
        }),
        { numRuns: 200, seed: 7 },
      );
      await until(() => [...accepted].every((id) => came.includes(`${id}#1`)));
    });
  });
});

describe("A policy beyond the reach of alarms and timers", () => {
  const cases: [DeliveryPolicy, RegExp][] = [
    [{ maxAge: 1e15 }, /maxAge .*at most "3650 days"/],
    [{ maxAge: "3651 days" }, /maxAge/],
    [{ backoff: { base: 1e15 } }, /backoff.base/],
    [{ backoff: { cap: Number.MAX_SAFE_INTEGER } }, /backoff.cap/],
    [{ timeout: "2 days" }, /timeout .*at most "1 day"/],
    [{ timeout: Number.POSITIVE_INFINITY }, /timeout/],
  ];

  it.each(cases)("O3: put() refuses the policy %j", async (policy, problem) => {
    const { box } = givenListening();
    await inside(box, async ({ lifecycle, outbox }) => {
      await lifecycle.start();
      expect(() => outbox.put({ kind: "method", method: "onEvent", policy }, 1)).toThrow(problem);
    });
  });

  it("O3: an entry with the longest valid policy is retried", async () => {
    const policy = {
      maxAge: "3650 days",
      backoff: { base: "3650 days", cap: "3650 days" },
    } as const;
    const { box, came } = givenListening({
      clock: { now: Date.now, random: () => 0.9 },
      deliver: () => {
        throw new Error("not now");
      },
    });
    await putAll(box, ["e"], workflowNamed("plain", policy));
    await until(() => came.length > 0);
    await until(() =>
      inside(box, async ({ outbox }) => (await outbox.inspect("e"))?.attempt === 2),
    );
    await putAll(box, ["f"], workflowNamed("other"));
    await until(() => came.length > 1);
  });
});

it("O1: a destination is limited as a whole, because each entry stores it", async () => {
  await within(givenLedger(), ({ outbox }) => {
    const secrets = Array.from({ length: 8 }, () => "HOOK_SECRET");
    expect(outbox.problemOf({ ...HOOK, secrets })).toBeUndefined();
    const policy = { maxAge: `${"0".repeat(20_000)}1 days` };
    expect(outbox.problemOf({ ...HOOK, policy })).toMatch(
      /^Invalid destination of 20\d+ characters: expected at most 16384 characters as JSON/,
    );
  });
});

it("O3: an error about a destination never shows its secrets", async () => {
  await within(givenLedger(), async ({ lifecycle, outbox }) => {
    await lifecycle.start();
    const destination = { kind: "webhook", url: "x", secrets: ["hunter2"] } as const;
    await expect(outbox.countDeadLetters({ destination })).rejects.not.toThrow(/hunter2/);
    expect(outbox.problemOf({ ...HOOK, secrets: ["hunter2"] })).not.toContain("hunter2");
  });
});
