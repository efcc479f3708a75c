/** Ids of submissions: those that the ledger gives, and those that callers choose. */

import { describe, expect, it } from "vitest";
import { writeParts } from "../../../src/submissions/store/answers.ts";
import { generatedId, seqIn } from "../../../src/submissions/store/rows.ts";
import { givenLedger } from "../../support/given.ts";
import { crashOne, expectState, type Ledger, submit, within } from "../../support/ledger.ts";

const HOLD = { delayMs: 60_000 };

function inspected(stub: Ledger, id: string) {
  return within(stub, ({ submissions }) => submissions.inspect(id));
}

function deleted(stub: Ledger, id: string): Promise<boolean> {
  return within(stub, ({ submissions }) => submissions.delete(id));
}

async function ended(stub: Ledger, submissionId?: string): Promise<string> {
  const { submissionId: id } = await submit(stub, "x", { ...(submissionId && { submissionId }) });
  await expectState(stub, id, "completed");
  return id;
}

describe("L3: an id that the ledger gives", () => {
  it.each([1, 35, 36, 123_456_789, Number.MAX_SAFE_INTEGER])("says its number, %d", (seq) => {
    expect(seqIn(generatedId(seq, crypto.randomUUID()))).toBe(seq);
  });

  it.each(["", "1", "1-2", crypto.randomUUID(), `zzzzzzzzzzz-${crypto.randomUUID()}`, "1-x:retry"])(
    "is none that looks like %j",
    (id) => {
      expect(seqIn(id)).toBeNull();
      expect(seqIn(`${generatedId(1, crypto.randomUUID())}:retry`)).toBeNull();
    },
  );

  it("a generated id is found as a whole: its number alone is not enough, also after its reuse", async () => {
    const stub = givenLedger();
    const kept = await ended(stub);
    const gone = await ended(stub);
    expect([seqIn(kept), seqIn(gone)]).toEqual([1, 2]);
    expect(await inspected(stub, generatedId(1, crypto.randomUUID()))).toBeNull();
    expect(await deleted(stub, gone)).toBe(true);
    expect(seqIn(await ended(stub))).toBe(3);
    await deleted(stub, (await stub.list())[0]?.submissionId ?? "");
    const next = await crashOne(stub);
    const again = await ended(next);
    expect(seqIn(again)).toBe(2);
    expect(again).not.toBe(gone);
    expect(await inspected(next, gone)).toBeNull();
    expect(await deleted(next, gone)).toBe(false);
    expect(await inspected(next, again)).toMatchObject({ submissionId: again });
  });

  it("a generated id that a caller passes as its own finds the same submission", async () => {
    const stub = givenLedger();
    const { submissionId } = await submit(stub, HOLD);
    const again = await submit(stub, "other", { submissionId });
    expect(again).toMatchObject({ submissionId, accepted: false, conflict: true });
    await stub.cancel(submissionId);
    await deleted(stub, submissionId);
    expect(await submit(stub, "other", { submissionId })).toMatchObject({ accepted: true });
    await expectState(stub, submissionId, "completed");
  });

  it("a retry gets a generated id of its own, and a second call of retry() finds it", async () => {
    const stub = givenLedger();
    const { submissionId } = await submit(stub, { fail: "no" });
    await expectState(stub, submissionId, "error");
    const retries = await within(stub, async ({ submissions }) => [
      await submissions.retry(submissionId),
      await submissions.retry(submissionId),
    ]);
    const retryId = retries[0]?.submissionId ?? "";
    expect(seqIn(retryId)).toBe(2);
    expect(retries).toMatchObject([{ accepted: true }, { submissionId: retryId, accepted: false }]);
    await expectState(stub, retryId, "error");
  });
});

describe("L3: an id of the caller's own", () => {
  it.each([0, 1, 2, 3])(
    "that looks like a given one, of number %d, is unique and found",
    async (seq) => {
      const stub = givenLedger();
      await ended(stub);
      const own = generatedId(seq, crypto.randomUUID());
      await ended(stub, own);
      await ended(stub);
      expect(await submit(stub, "x", { submissionId: own })).toMatchObject({ accepted: false });
      expect(await inspected(stub, own)).toMatchObject({ submissionId: own });
      const before = await within(stub, ({ submissions }) => submissions.list({ before: own }));
      expect(before).toHaveLength(1);
      expect(await deleted(stub, own)).toBe(true);
      expect(await inspected(stub, own)).toBeNull();
      expect(await stub.list()).toHaveLength(2);
    },
  );
});

/** An object with two submissions of ids that callers have chosen, one of which has all that a row can have. */
async function givenStored(): Promise<Ledger> {
  const stub = givenLedger();
  await stub.list();
  await within(stub, (_, { storage }) => {
    storage.sql.exec(`
      INSERT INTO perdure_submissions (seq, submission_id, idempotency_key, status, attempts, messages, output, created_at, started_at, settled_at)
      VALUES (7, '${OWN}', 'k', 'completed', 2, '[]', '', 1, 1, 1), (9, 'own', NULL, 'aborted', 1, '[]', NULL, 1, 1, 1);
      INSERT INTO perdure_attempts (seq, attempt, started_at, ended_at, error, error_name, follow)
      VALUES (7, 1, 1, 1, 'overloaded', 'OverloadedError', 'again');
`);
    writeParts(storage.sql, 7, '"in parts"');
  });
  return stub;
}
const OWN = crypto.randomUUID();

describe("L3, L7: submissions of generated ids beside those of chosen ids", () => {
  it("L3: a generated id follows the highest number that is stored", async () => {
    const stub = await givenStored();
    expect(await inspected(stub, OWN)).toMatchObject({
      status: "completed",
      output: "in parts",
      failedAttempts: [{ attempt: 1, error: "overloaded" }],
    });
    expect(seqIn(await ended(stub))).toBe(10);
  });

  it("L9: deleting a submission deletes its attempts and the parts of its answer", async () => {
    const stub = await givenStored();
    expect(await deleted(stub, OWN)).toBe(true);
    const left = await within(stub, (_, { storage }) =>
      ["attempts", "values"].map((name) =>
        storage.sql.exec(`SELECT COUNT(*) AS rows FROM perdure_${name}`).one(),
      ),
    );
    expect(left).toEqual([{ rows: 0 }, { rows: 0 }]);
  });

  it("L7: both are read and refused in the order that is asked", async () => {
    const stub = await givenStored();
    const [first, last] = [await ended(stub), await ended(stub)];
    const asked = [last, "unknown", OWN, generatedId(7, crypto.randomUUID()), "own", first];
    const { ends } = await stub.readPrompts(asked);
    expect(ends.map(({ submissionId }) => submissionId)).toEqual([last, OWN, "own", first]);
    await within(stub, ({ prompts }) => prompts.refuse(asked));
    const refused = await within(stub, (_, { storage }) =>
      storage.sql
        .exec("SELECT submission_id AS id FROM perdure_submissions WHERE is_refused ORDER BY seq")
        .toArray(),
    );
    expect(refused).toEqual([{ id: OWN }, { id: first }, { id: last }]);
  });
});
