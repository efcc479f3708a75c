/** Answers of any size in the ledger, and how their ends reach a workflow in pieces: O4 on the light host. */

import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { byteLength, type Json } from "../../../src/core/json.ts";
import { PART_LENGTH, partsOf } from "../../../src/core/text.ts";
import { ANSWER_BYTES, ROW_BYTES } from "../../../src/submissions/options.ts";
import { IN_PARTS, StoredAnswer, writeParts } from "../../../src/submissions/store/answers.ts";
import type { InternalSubmitOptions } from "../../../src/submissions/submit-options.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";
import { givenLedger, message, until } from "../../support/given.ts";
import {
  acceptOne,
  again,
  arrived,
  crashOne,
  expectState,
  type Ledger,
  playing,
  release,
  sleep,
  somewhere,
  submit,
  wakeNow,
  within,
} from "../../support/ledger.ts";
import {
  births,
  delivered,
  type LedgerObject,
  ledgerOptions,
  time,
} from "../../support/objects/ledger-object.ts";

const ANSWERED = { answer: { schema: {} } } as const;
/** Over 4 MB of characters of all lengths, some of which JSON escapes. */
const MIXED = 'a"\\\n😀€é'.repeat(400_000);
/** Too long for the row, and quickly written: for what only counts parts. */
const LONG = "x".repeat(2_500_000);

/** Turns of the ledger answer with `output`, after every start of the object. */
function answering(stub: Ledger, output: Json): Promise<void> {
  const play = ({ turns, submissions }: LedgerObject) => {
    turns.run = async ({ begin }) => {
      const ref = begin();
      // What was accepted and claimed is stored by now, whatever becomes of the answer.
      await sleep(10);
      const isAnswered = submissions.turns.answer(ref, output);
      return isAnswered
        ? { outcome: "completed" }
        : { outcome: "error", failure: { name: "NotTakenError", message: "not taken" } };
    };
  };
  births.set(stub.name ?? "", play);
  return within(stub, play);
}

async function answered(stub: Ledger, output: Json, options: InternalSubmitOptions = {}) {
  await answering(stub, output);
  const { submissionId } = await submit(stub, "x", { ...ANSWERED, ...options });
  await expectState(stub, submissionId, "completed");
  return submissionId;
}

/** How many parts there are of each submission, by its number. */
function partsIn(stub: Ledger): Promise<Record<number, number>> {
  return within(stub, (_, { storage }) => {
    const made = "SELECT 1 FROM sqlite_master WHERE name = 'perdure_values'";
    if (storage.sql.exec(made).toArray().length === 0) return {};
    const query =
      "SELECT CAST(substr(owner, 8) AS INTEGER) AS seq, COUNT(*) AS parts FROM perdure_values GROUP BY owner";
    const rows = storage.sql.exec<{ seq: number; parts: number }>(query).toArray();
    return Object.fromEntries(rows.map(({ seq, parts }) => [seq, parts]));
  });
}

function inParts(output: Json): number {
  return partsOf(JSON.stringify(output)).length;
}

/** `toEqual` would print megabytes. */
function expectSame(one: unknown, other: unknown): void {
  expect(JSON.stringify(one) === JSON.stringify(other)).toBe(true);
}

describe("O4: an answer comes back whole", () => {
  it.each<[string, Json]>([
    ["1.5 MiB", { text: "x".repeat(1_572_864) }],
    ["3 MiB", { text: "x".repeat(3 * 1_048_576) }],
    ["text of any script, with escapes", { text: MIXED }],
    ["many values", Array.from({ length: 300_000 }, (_, at) => ({ at }))],
    ["exactly 16 MiB", "x".repeat(ANSWER_BYTES - 2)],
  ])("O4, L7: of %s: inspected, listed, waited for and sent", async (_, output) => {
    const stub = givenLedger();
    const to = somewhere();
    const enqueue = await within(stub, ({ outbox }) => vi.spyOn(outbox, "enqueue"));
    const submissionId = await answered(stub, output, { notify: [to] });
    await arrived(to);
    const next = await crashOne(stub);
    await within(next, async ({ submissions }) => {
      expectSame((await submissions.inspect(submissionId))?.output, output);
      expectSame((await submissions.wait(submissionId))?.output, output);
      const [listed] = await submissions.list();
      expectSame(listed?.output, output);
    });
    expect(enqueue).toHaveBeenCalledTimes(1);
    expect(enqueue.mock.calls[0]?.[2].includes(JSON.stringify(output))).toBe(true);
  });

  it("O4: one in parts is as one in the row: its value, its bytes and its parts", async () => {
    const stub = givenLedger();
    await stub.list();
    const text = fc.record({
      unit: fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 9 }),
      length: fc.integer({ min: 1, max: 3 * PART_LENGTH }),
    });
    await within(stub, (_, { storage: { sql } }) => {
      let seq = 0;
      const isSame = fc.property(text, ({ unit, length }) => {
        const json = JSON.stringify({ text: unit.repeat(length / unit.length) });
        writeParts(sql, ++seq, json);
        const [inParts, inRow] = [IN_PARTS, json].map(
          (output) => new StoredAnswer(sql, seq, output),
        );
        expectSame(inParts?.read(), inRow?.read());
        expect(inParts?.bytes).toBe(inRow?.bytes);
        for (let part = 0; inRow?.part(part - 1) || part === 0; part++) {
          expectSame(inParts?.part(part), inRow?.part(part));
        }
      });
      fc.assert(isSame, { numRuns: 15 });
    });
  });

  it("O4: in the row as long as it fits there, in parts from the next byte on", async () => {
    const stub = givenLedger();
    const asked = message("x", "m");
    await stub.list();
    const room = ROW_BYTES - byteLength(JSON.stringify([asked]) + JSON.stringify(ANSWERED.answer));
    for (const [submissionId, length] of [
      ["fits", room - 2],
      ["fits not", room - 1],
    ] as const) {
      await answering(stub, "x".repeat(length));
      await within(stub, ({ submissions }) =>
        acceptOne(submissions, [asked], { ...ANSWERED, submissionId }),
      );
      await expectState(stub, submissionId, "completed");
    }
    expect(await partsIn(stub)).toEqual({ 2: inParts("x".repeat(room - 1)) });
  });

  it("O4: whatever else is on the row: metadata counts, too", async () => {
    const stub = givenLedger();
    const output = "x".repeat(1_500_000);
    const submissionId = await answered(stub, output, {
      metadata: { text: "x".repeat(1_000_000) },
    });
    await within(stub, async ({ submissions }) => {
      expectSame((await submissions.inspect(submissionId))?.output, output);
    });
  });

  it("O4: over 16 MiB it is refused with what to do, and nothing of it is stored", async () => {
    const stub = givenLedger();
    await answering(stub, "x".repeat(ANSWER_BYTES - 1));
    const { submissionId } = await submit(stub, "x", ANSWERED);
    const ended = await expectState(stub, submissionId, "error", {
      errorName: "AnswerTooLargeError",
    });
    expect(ended.error).toContain("of 16777217 bytes: expected at most 16777216 bytes.");
    expect(await partsIn(stub)).toEqual({});
  });

  it("O4: a small one costs no row and no statement of the parts; a large one a row for each", async () => {
    const stub = givenLedger();
    await stub.list();
    const cost = async (output: Json) => {
      await within(stub, ({ meter }) => meter.reset());
      const submissionId = await answered(stub, output);
      await within(stub, ({ submissions }) => submissions.inspect(submissionId));
      await within(stub, ({ submissions }) => submissions.delete(submissionId));
      const ofParts = (query: string) => query.includes("perdure_values");
      return within(stub, ({ meter }) => ({
        rows: meter.rowsWrittenBy(ofParts),
        statements: meter.statementsOf(ofParts),
      }));
    };
    expect(await cost("x".repeat(1_900_000))).toEqual({ rows: 0, statements: 0 });
    // The first one makes the table.
    await cost(MIXED);
    const { rows, statements } = await cost(MIXED);
    expect(rows).toBe(inParts(MIXED));
    expect(statements).toBeGreaterThan(rows);
  });
});

it("O4: a page of a list has no more large answers than one result can hold, and the next page continues", async () => {
  const stub = givenLedger();
  for (const submissionId of ["s1", "s2", "s3", "s4", "s5"]) {
    await answered(stub, "x".repeat(7_000_000), { submissionId });
  }
  await answered(stub, "x".repeat(ANSWER_BYTES - 2), { submissionId: "s6" });
  await within(stub, async ({ submissions }) => {
    const pages: string[][] = [];
    for (let before: string | undefined; ; before = pages.at(-1)?.at(-1)) {
      const page = await submissions.list(before === undefined ? {} : { before });
      if (page.length === 0) break;
      pages.push(page.map(({ submissionId }) => submissionId));
    }
    expect(pages).toEqual([["s6"], ["s5", "s4"], ["s3", "s2"], ["s1"]]);
  });
});

describe("O4: all of an answer is stored, or nothing", () => {
  it.each([1, 2, 5])("O4, L6: a crash before part %i of it", async (at) => {
    const stub = givenLedger();
    await answering(stub, MIXED);
    let parts = 0;
    await within(stub, ({ meter }, ctx) => {
      meter.onWrite = (_, what) => {
        if (what.includes("INTO perdure_values") && ++parts === at) ctx.abort("crash");
      };
    });
    await submit(stub, "x", { ...ANSWERED, submissionId: "s" });
    await until(() => parts === at);
    const next = again(stub);
    await wakeNow(next);
    const ended = await expectState(next, "s", "completed", { attempts: 2 });
    expectSame(ended.output, MIXED);
    expect(await partsIn(next)).toEqual({ 1: inParts(MIXED) });
  });

  it("O4: storage that refuses a part leaves none, and the submission unanswered", async () => {
    const stub = givenLedger();
    await answering(stub, MIXED);
    await within(stub, ({ meter }) => {
      let parts = 0;
      meter.onWrite = (_, what) => {
        if (what.includes("INTO perdure_values") && ++parts === 3) throw new Error("full");
      };
    });
    await submit(stub, "x", { ...ANSWERED, submissionId: "s" });
    await expectState(stub, "s", "error", { error: "full" });
    expect(await partsIn(stub)).toEqual({});
    await within(stub, (_, { storage }) => {
      const query = "SELECT COUNT(*) AS count FROM perdure_submissions WHERE output IS NOT NULL";
      expect(storage.sql.exec(query).one()).toEqual({ count: 0 });
    });
  });

  it("O4, L2: a second answer and one of an earlier attempt change nothing of it", async () => {
    const stub = givenLedger();
    await playing(stub, "s", async ({ begin }, { submissions }) => {
      const ref = begin();
      expect(submissions.turns.answer({ ...ref, attempt: ref.attempt - 1 }, MIXED)).toBe(false);
      expect(submissions.turns.answer(ref, MIXED)).toBe(true);
      expect(submissions.turns.answer(ref, `${MIXED}, again`)).toBe(false);
      expect(submissions.turns.answer(ref, "short")).toBe(false);
      expect(submissions.turns.answer(ref, "x".repeat(ANSWER_BYTES))).toBe(false);
      return { outcome: "completed" };
    });
    await submit(stub, "x", { ...ANSWERED, submissionId: "s" });
    expectSame((await expectState(stub, "s", "completed")).output, MIXED);
    expect(await partsIn(stub)).toEqual({ 1: inParts(MIXED) });
  });

  it("O4, L5: the answer of a cancelled submission is not sent, and its parts are deleted with it", async () => {
    const stub = givenLedger();
    await playing(stub, "s", async ({ begin, signal }, { submissions }) => {
      submissions.turns.answer(begin(), MIXED);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { outcome: "aborted" };
    });
    await submit(stub, "x", { ...ANSWERED, submissionId: "s" });
    await expectState(stub, "s", "running");
    await stub.cancel("s");
    expect(await stub.inspect("s")).not.toHaveProperty("output");
    expect(await stub.readPrompt("s", 0)).toBeNull();
    await within(stub, ({ submissions }) => submissions.delete("s"));
    expect(await partsIn(stub)).toEqual({});
  });
});

describe("O4, L9: no part is left behind", () => {
  const HOUR_MS = 3_600_000;
  const parts = inParts(LONG);
  const ways: Record<string, (object: LedgerObject) => Promise<unknown>> = {
    "deleteSubmission()": ({ submissions }) => submissions.delete("s1"),
    "deleteSubmissions()": ({ submissions }) => submissions.deleteMany({ limit: 1 }),
  };

  it.each(Object.keys(ways))("by %s, and those of others stay", async (way) => {
    const stub = givenLedger();
    for (const submissionId of ["s1", "s2"]) await answered(stub, LONG, { submissionId });
    expect(await partsIn(stub)).toEqual({ 1: parts, 2: parts });
    await within(stub, (object) => ways[way]?.(object));
    expect(await partsIn(stub)).toEqual({ 2: parts });
    expectSame((await expectState(stub, "s2", "completed")).output, LONG);
  });

  it("by retention", async () => {
    const stub = givenLedger();
    ledgerOptions.set(stub.name ?? "", { retention: { maxAge: "1 hour" } });
    for (const submissionId of ["s1", "s2"]) await answered(stub, LONG, { submissionId });
    time.aheadMs = HOUR_MS + 60_000;
    await answered(stub, LONG, { submissionId: "s3" });
    await until(async () => {
      await wakeNow(stub);
      return (await stub.inspect("s2")) === null;
    });
    expect(await partsIn(stub)).toEqual({ 3: parts });
  });

  it("so that a number that is given again has the answer of its own only", async () => {
    const stub = givenLedger();
    await answered(stub, LONG, { submissionId: "s" });
    await within(stub, ({ submissions }) => submissions.delete("s"));
    const next = await crashOne(stub);
    await answered(next, `${LONG}, another`, { submissionId: "t" });
    expectSame((await expectState(next, "t", "completed")).output, `${LONG}, another`);
    expect(await partsIn(next)).toEqual({ 1: inParts(`${LONG}, another`) });
  });
});

describe("O4: a prompt's end in pieces that a step can hold", () => {
  const request = {
    idempotencyKey: "k",
    run: "first",
    workflow: { name: "PROMPT_WORKFLOW", id: "w", stepName: "s" },
    messages: [{ role: "user" as const, parts: [{ type: "text" as const, text: "x" }] }],
    answer: { schema: {} },
  };

  /** The prompt, ended with `output`: how a restart finds it (W1), how a timeout does (W2), and its parts. */
  async function givenEnd(output: Json) {
    const stub = givenLedger();
    await answering(stub, output);
    const { submissionId } = await stub.prompt(request);
    await expectState(stub, submissionId, "completed");
    return within(stub, async (object) => {
      const texts: string[] = [];
      for (let part = 0; ; part++) {
        const read = await object.readPrompt(submissionId, part);
        if (!read) break;
        expect(byteLength(JSON.stringify(read))).toBeLessThan(1_048_576);
        texts.push(read.text);
        expect(read.parts).toBeGreaterThanOrEqual(texts.length);
        if (read.parts === texts.length)
          expect(await object.readPrompt(submissionId, part + 1)).toBeNull();
      }
      expectSame(JSON.parse(texts.join("")), output);
      return {
        submissionId,
        parts: texts.length,
        restarted: (await object.prompt({ ...request, run: "second" })).end,
        expired: await object.expire(submissionId),
      };
    });
  }

  it.each<[string, Json, number]>([
    ["a small answer", { ok: true }, 1],
    ["null", null, 1],
    ["just one part", "x".repeat(PART_LENGTH - 2), 1],
  ])("O4, W1, W2: %s is sent whole", async (_, output, parts) => {
    const ended = await givenEnd(output);
    const end = { submissionId: ended.submissionId, status: "completed", attempts: 1, output };
    expect(ended.parts).toBe(parts);
    expectSame(ended.restarted, end);
    expectSame(ended.expired, end);
  });

  it.each<[string, Json]>([
    ["one unit over a part", "x".repeat(PART_LENGTH - 1)],
    ["a large one in the row", { text: '😀"'.repeat(300_000) }],
    ["one in parts", MIXED],
  ])("O4, W1, W2: %s is sent as a reference", async (_, output) => {
    const ended = await givenEnd(output);
    const reference = { bytes: byteLength(JSON.stringify(output)) };
    const end = { submissionId: ended.submissionId, status: "completed", attempts: 1, reference };
    expect(ended.parts).toBe(inParts(output));
    expect(ended.restarted).toEqual(end);
    expect(ended.expired).toEqual(end);
  });

  it("O4: there is no part of what is unknown, open, failed, deleted, or behind the last one", async () => {
    const stub = givenLedger();
    await submit(stub, { delayMs: 60_000 }, { ...ANSWERED, submissionId: "open" });
    await submit(stub, { fail: "no" }, { ...ANSWERED, submissionId: "failed", thread: "b" });
    await submit(stub, {}, { submissionId: "unasked", thread: "c" });
    await submit(stub, { answer: 1 }, { ...ANSWERED, submissionId: "s", thread: "d" });
    await expectState(stub, "failed", "error");
    await expectState(stub, "unasked", "completed");
    await expectState(stub, "s", "completed");
    for (const id of ["?", "open", "failed"]) {
      expect(await stub.readPrompt(id, 0)).toBeNull();
    }
    expect(await stub.readPrompt("unasked", 0)).toEqual({ text: '"done"', parts: 1 });
    for (const part of [-1, 0.5, 1, Number.NaN])
      expect(await stub.readPrompt("s", part)).toBeNull();
    expect(await stub.readPrompt("s", 0)).toEqual({ text: "1", parts: 1 });
    await within(stub, ({ submissions }) => submissions.delete("s"));
    expect(await stub.readPrompt("s", 0)).toBeNull();
    await stub.cancel("open");
  });
});

describe("L7: the text of the reply is the output of a submission without a schema", () => {
  /** Turns of this object instance end with this text. */
  const saying = (stub: Ledger, text: string) =>
    within(stub, ({ turns }) => {
      turns.run = async (turn) => {
        turn.begin();
        await turn.announced();
        return { outcome: "completed", text };
      };
    });

  it("L7: every completed submission has an output, which is empty where the model said nothing", async () => {
    const stub = givenLedger();
    await submit(stub, { text: "hello" }, { submissionId: "s" });
    await submit(stub, {}, { submissionId: "isolated", thread: "isolated" });
    await submit(stub, { fail: "no" }, { submissionId: "failed", thread: "b" });
    expect(await expectState(stub, "s", "completed")).toMatchObject({ output: "hello" });
    expect(await expectState(stub, "isolated", "completed")).toMatchObject({ output: "done" });
    expect(await expectState(stub, "failed", "error")).not.toHaveProperty("output");
    await saying(stub, "");
    await submit(stub, "x", { submissionId: "silent" });
    expect(await expectState(stub, "silent", "completed")).toMatchObject({ output: "" });
  });

  it("L7: a text costs no statement and no row, and one that its row cannot hold a row for each 256 Ki", async () => {
    const stub = givenLedger();
    await stub.list();
    const counted = async (text: string, asked = "x") => {
      await saying(stub, text);
      await within(stub, ({ meter }) => meter.reset());
      const { submissionId } = await submit(stub, asked);
      await stub.wait(submissionId);
      return within(stub, ({ meter }) => ({
        rows: meter.rowsWrittenBy((query) => query.includes(" perdure_")),
        statements: meter.statementsOf((query) => query.includes(" perdure_")),
      }));
    };
    await counted("");
    const none = await counted("");
    expect(await counted("a text")).toEqual(none);
    const long = "x".repeat(100_000);
    expect(await counted(long)).toEqual({ rows: none.rows, statements: none.statements + 1 });
    const [x, y] = ["x".repeat(1_000_000), "y".repeat(1_200_000)];
    // The first one makes the table.
    await counted(x, y);
    const large = await counted(x, y);
    // It is looked whether there is a table, and it is read for the app's hook and for waiting callers.
    expect(large).toEqual({ rows: none.rows + 4, statements: none.statements + 1 + 1 + 4 + 2 });
  });

  it("O4: a text of any size up to the limit is read and sent whole, also after a crash", async () => {
    const stub = givenLedger();
    const to = somewhere();
    await saying(stub, MIXED);
    await submit(stub, "x", { submissionId: "s", notify: to });
    await stub.wait("s");
    const delivery = await until(() => delivered.get(to.instance)?.[0]);
    expect(delivery.payload).toHaveProperty("reference");
    const next = await crashOne(stub);
    expectSame((await next.inspect("s"))?.output, MIXED);
  });

  it("L9: a text over 16 MiB ends its submission as an error that names the limit", async () => {
    const stub = givenLedger();
    await saying(stub, "x".repeat(ANSWER_BYTES));
    await submit(stub, "x", { submissionId: "s" });
    const message = expect.stringContaining(`at most ${ANSWER_BYTES}`);
    const end = { errorName: "AnswerTooLargeError", error: message, attempts: 1 };
    expect(await expectState(stub, "s", "error")).toMatchObject(end);
    expect(await partsIn(stub)).toEqual({});
  });

  it("L7: each submission that joined a turn has its text", async () => {
    const stub = givenLedger();
    await submit(stub, { calls: 2, isHeld: true, text: "both" }, { submissionId: "first" });
    await submit(stub, "x", { submissionId: "joined", whenBusy: "steer" });
    await release(stub, "first");
    const joined = await expectState(stub, "joined", "completed");
    expect(joined).toMatchObject({ mergedInto: "first", output: "both" });
    expect(await expectState(stub, "first", "completed")).toMatchObject({ output: "both" });
  });

  it("L7: a reply that was stored before a crash came is the output, and is not asked for again", async () => {
    const stub = givenLedger();
    births.set(stub.name ?? "", ({ turns }) => {
      turns.inspectConversation = async () => ({
        applied: "all",
        hasEffects: false,
        messageId: "r",
        text: "said",
      });
    });
    await submit(stub, { delayMs: 60_000 }, { submissionId: "s", thread: "side" });
    const next = await crashOne(stub);
    const end = await expectState(next, "s", "completed");
    expect(end).toMatchObject({ output: "said", messageId: "r", attempts: 1 });
  });

  it("O1: the event of an end has the output, and what the caller has given the submission", async () => {
    const stub = givenLedger();
    const to = somewhere();
    const given = { idempotencyKey: "k", metadata: { order: 7 }, thread: "side" };
    await submit(stub, { text: "hello" }, { submissionId: "s", notify: [to], ...given });
    const delivery = await until(() => delivered.get(to.instance)?.[0]);
    expect(delivery.payload).toMatchObject({
      type: "submission.completed",
      data: { submissionId: "s", output: "hello", ...given },
    });
    await submit(stub, { fail: "no" }, { submissionId: "bare", notify: [to], thread: "isolated" });
    const [, bare] = await until(() => {
      const all = delivered.get(to.instance) ?? [];
      return all.length === 2 && all;
    });
    expect(bare?.payload).toHaveProperty("data", {
      submissionId: "bare",
      status: "error",
      attempts: 1,
      error: "no",
      errorName: "Error",
      thread: "isolated",
    });
  });
});
