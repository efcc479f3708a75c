/** What callers may say to the ledger: texts that storage keeps as they are, public options alone, and times that can come. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { InvalidSubmissionError } from "../../../src/submissions/errors.ts";
import type { SubmitMessagesOptions } from "../../../src/submissions/submit-options.ts";
import { givenLedger, message, refusal } from "../../support/given.ts";
import { expectState, type Ledger, somewhere, submit, within } from "../../support/ledger.ts";
import type { LedgerObject } from "../../support/objects/ledger-object.ts";

type Verbs = LedgerObject["submissions"];

/** Texts of which half a character is part: at the end, at the beginning, and in the middle. */
const malformed = fc
  .tuple(fc.string(), fc.constantFrom("\uD83D", "\uDC69", "\uDC69\uD83D"), fc.string())
  .map(([before, half, after]) => `${before}${half}${after}`)
  .filter((text) => !text.isWellFormed());

/** Every place at a public verb where a text is stored or looked for. */
const PLACES: Readonly<Record<string, (ledger: Verbs, text: string) => Promise<unknown>>> = {
  "submit submissionId": (ledger, text) => ledger.submit([message("x")], { submissionId: text }),
  "submit idempotencyKey": (ledger, text) =>
    ledger.submit([message("x")], { idempotencyKey: text }),
  "submit thread": (ledger, text) => ledger.submit([message("x")], { thread: text }),
  "submit channel": (ledger, text) => ledger.submit([message("x")], { channel: text }),
  "submit debounce.key": (ledger, text) =>
    ledger.submit([message("x")], { debounce: { key: text, delay: 1 } }),
  "submit messages[0].id": (ledger, text) => ledger.submit([message("x", text)]),
  "submitMany submissionId": (ledger, text) =>
    ledger.submitMany([
      { messages: [message("x")] },
      { messages: [message("x")], options: { submissionId: text } },
    ]),
  "inspect submissionId": (ledger, text) => ledger.inspect(text),
  "cancel submissionId": (ledger, text) => ledger.cancel(text),
  "retry submissionId": (ledger, text) => ledger.retry(text),
  "wait submissionId": (ledger, text) => ledger.wait(text),
  "delete submissionId": (ledger, text) => ledger.delete(text),
  "list before": (ledger, text) => ledger.list({ before: text }),
  "list thread": (ledger, text) => ledger.list({ thread: text }),
  "list metadata": (ledger, text) => ledger.list({ metadata: { [text]: 1 } }),
  "list metadata.a": (ledger, text) => ledger.list({ metadata: { a: text } }),
  "clearThread thread": (ledger, text) => ledger.clearThread(text, async () => {}),
};

describe("half of a surrogate pair", () => {
  it.each(Object.entries(PLACES))("L1: is refused by %s, and nothing is stored", (place, call) =>
    within(givenLedger(), async ({ submissions }) => {
      const field = place.split(" ")[1];
      const refused = async (text: string) => {
        const error = (await refusal(call(submissions, text))) as InvalidSubmissionError;
        expect(error).toMatchObject({ name: "InvalidSubmissionError", field });
        expect(error.message).toContain("unpaired surrogate");
      };
      await refused("issue-👩".slice(0, 7));
      await fc.assert(fc.asyncProperty(malformed, refused), { numRuns: 20 });
      expect(await submissions.list()).toEqual([]);
    }),
  );

  it("L1: ids of any other text are kept apart, and found by every verb", () =>
    within(givenLedger(), (object) => {
      object.turns.run = async (turn) => {
        turn.begin();
        throw new Error("no");
      };
      const { submissions } = object;
      const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 });
      return fc.assert(
        fc.asyncProperty(text, text, text, text, async (id, key, name, messageId) => {
          const thread = ["main", "isolated"].includes(name) ? "other" : name;
          const submissionId = `${crypto.randomUUID()}${id}`;
          const idempotencyKey = `${crypto.randomUUID()}${key}`;
          const asked = message("x", messageId);
          const options = { submissionId, idempotencyKey, thread };
          await submissions.submit([asked], options);
          const again = await submissions.submit([asked], options);
          expect(again).toMatchObject({ ...options, accepted: false });
          expect((await submissions.wait(submissionId))?.status).toBe("error");
          expect(await submissions.list({ thread, limit: 1 })).toMatchObject([options]);
          const retried = await submissions.retry(submissionId);
          expect(retried).toMatchObject({ idempotencyKey, thread, accepted: true });
          await submissions.wait(retried?.submissionId ?? "");
          expect(await submissions.delete(submissionId)).toBe(true);
        }),
        { numRuns: 40 },
      );
    }));

  it("L4: is kept in what a message says and in metadata, which are stored as JSON", async () => {
    const stub = givenLedger();
    const text = "cut here: \uD83D";
    await submit(stub, text, { submissionId: "s", metadata: { title: text } });
    expect(await expectState(stub, "s", "completed")).toMatchObject({ metadata: { title: text } });
    const stored = await within(stub, (_, { storage }) =>
      storage.sql.exec<{ messages: string }>("SELECT messages FROM perdure_submissions").one(),
    );
    expect(JSON.parse(stored.messages)[0].parts).toEqual([{ type: "text", text }]);
  });
});

describe("options that are not the caller's", () => {
  const INTERNAL: readonly [string, unknown][] = [
    ["answer", { schema: {} }],
    ["run", "r"],
    ["batch", { id: "b", lanes: "x" }],
  ];

  it.each(INTERNAL)("L1: %s is refused by submit() and submitMany()", async (name, value) => {
    const stub = givenLedger();
    const options = { thread: "isolated", [name]: value } as SubmitMessagesOptions;
    await within(stub, async ({ submissions }) => {
      const calls = [
        submissions.submit([message("x")], options),
        submissions.submitMany([
          { messages: [message("x")] },
          { messages: [message("x")], options },
        ]),
      ];
      for (const call of calls) {
        const error = (await refusal(call)) as InvalidSubmissionError;
        expect(error).toMatchObject({ name: "InvalidSubmissionError", field: name });
        expect(error.message).toMatch(
          new RegExp(`Unknown option "${name}" in submitMessages\\(\\)`),
        );
        const [, names = ""] = error.message.split("Valid options: ");
        expect(names).toContain("idempotencyKey");
        for (const [internal] of INTERNAL) expect(names.split(/, |\./)).not.toContain(internal);
      }
      expect(await submissions.list()).toEqual([]);
    });
  });

  it("O1: a function is no list of destinations", () =>
    within(givenLedger(), async ({ submissions }) => {
      const notify = (() => [somewhere()]) as never;
      const error = await refusal(submissions.submit([message("x")], { notify }));
      expect(error).toMatchObject({ name: "InvalidSubmissionError", field: "notify" });
    }));

  it.each([
    ["concurrency", { concurrency: "x" }],
    ["concurrency", { concurrency: 101 }],
    ["batch", { batch: "b\uD83D" }],
  ])("L1: a batch whose %s cannot be meant is refused: %j", async (field, given) => {
    const stub: Ledger = givenLedger();
    const { workflow, instance } = somewhere();
    const items = [{ idempotencyKey: "k", key: "a", messages: [message("x")] }];
    const request = {
      ...{ batch: "b", concurrency: 4, run: "r", items, answer: {}, ...given },
      workflow: { name: workflow, id: instance, stepName: "s" },
    };
    const accepted = within(stub, (object) => object.acceptPrompts(request as never));
    expect(await refusal(accepted)).toMatchObject({ name: "InvalidSubmissionError", field });
    expect(await stub.list()).toEqual([]);
  });
});

describe("times that cannot come", () => {
  it.each<[string, SubmitMessagesOptions]>([
    ["debounce.delay", { debounce: { key: "k", delay: 1e15 } }],
    ["debounce.maxDelay", { debounce: { key: "k", delay: 1, maxDelay: 1e15 } }],
    ["expiresIn", { expiresIn: 1e15 }],
    ["notBefore", { notBefore: new Date("9998-01-01") }],
  ])("L9: %s after 2188 is refused: %j", (field, options) =>
    within(givenLedger(), async ({ submissions }) => {
      const error = await refusal(submissions.submit([message("x")], options));
      expect(error).toMatchObject({ name: "InvalidSubmissionError", field });
      expect(error.message).toMatch(/2188|2189/);
      expect(await submissions.list()).toEqual([]);
    }),
  );

  it("L9: a delay of 50 years is taken, though ten times that is too long", () =>
    within(givenLedger(), async ({ submissions }) => {
      const delay = 50 * 365 * 86_400_000;
      const later = await submissions.submit([message("x")], { debounce: { key: "k", delay } });
      expect(later).toMatchObject({ status: "pending", accepted: true });
      await submissions.cancel(later.submissionId);
    }));

  it("L9: destinations that repetitions add count towards the size", () =>
    within(givenLedger(), async ({ submissions }) => {
      const debounce = { key: "k", delay: 60_000 };
      const metadata = { x: "x".repeat(1_899_000) };
      const { submissionId } = await submissions.submit([message("x")], { debounce, metadata });
      const repeat = (destinations: number) =>
        submissions.submit([message("x")], {
          ...{ debounce, metadata },
          notify: Array.from({ length: destinations }, somewhere),
        });
      let refused: Error | undefined;
      for (let n = 0; n < 20 && !refused; n++) await repeat(2).catch((error) => (refused = error));
      expect(refused).toMatchObject({ name: "InvalidSubmissionError", field: "messages" });
      await submissions.cancel(submissionId);
    }));
});
