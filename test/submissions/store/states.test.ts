/** The verbs of the ledger's store on real storage: what each may do to a submission in each of its states. */

import { beforeAll, describe, expect, it } from "vitest";
import { readLimits } from "../../../src/submissions/options.ts";
import { isTerminal, NEXT, type SubmissionStatus } from "../../../src/submissions/states.ts";
import type { Seen, SettledState, Submission } from "../../../src/submissions/store/rows.ts";
import { SubmissionStore } from "../../../src/submissions/store/store.ts";
import { givenLedger, message } from "../../support/given.ts";
import { within } from "../../support/ledger.ts";

const STATUSES = Object.keys(NEXT) as SubmissionStatus[];
const TERMINAL = STATUSES.filter(isTerminal);
const NOW = 1_700_000_000_000;

let stub: ReturnType<typeof givenLedger>;
beforeAll(async () => {
  stub = givenLedger();
  await stub.list();
});

/** Runs `work` with the store, and a way to make submissions in it. */
function onStore<T>(work: (store: SubmissionStore, given: Given) => T): Promise<T> {
  return within(stub, (_, { storage }) => {
    const store = new SubmissionStore(storage, readLimits());
    store.skipPending("main", { name: "Cleared", message: "by the next test" }, NOW);
    for (const running of store.open.running()) store.settle(running, { status: "error" }, NOW);
    const row = (seq: number) =>
      storage.sql.exec("SELECT * FROM perdure_submissions WHERE seq = ?", seq).toArray()[0];
    const submission: Given["submission"] = (status, attempts) => make(store, status, attempts);
    return work(store, { submission, row });
  });
}

type Given = {
  /** A submission that has come to `status` after so many attempts: none if it is pending, else two. */
  submission: (status: SubmissionStatus, attempts?: number) => Submission;
  /** The whole row, to see that nothing of it has changed. */
  row: (seq: number) => unknown;
};

function make(
  store: SubmissionStore,
  status: SubmissionStatus,
  attempts = status === "pending" ? 0 : 2,
): Submission {
  const id = crypto.randomUUID();
  const { seq } = store.accept(
    {
      submissionId: id,
      isGenerated: false,
      isRetry: false,
      idempotencyKey: `key-${id}`,
      messages: JSON.stringify([message("hello", `message-${id}`)]),
      metadata: undefined,
      thread: "main",
      channel: undefined,
      answer: undefined,
      limits: undefined,
      notify: undefined,
      run: undefined,
      retry: undefined,
      rank: 0,
      notBefore: undefined,
      expiresAt: undefined,
      budget: undefined,
      traceParent: undefined,
      debounceKey: undefined,
      debounceUntil: undefined,
      batch: undefined,
    },
    NOW,
  );
  for (let attempt = 1; attempt <= attempts; attempt++) {
    store.claim(seq, NOW);
    if (attempt < attempts || status === "pending") store.startOver({ seq, attempts: attempt }, 0);
  }
  if (isTerminal(status)) store.settle({ seq, status: "running", attempts }, { status }, NOW);
  const made = store.find(id);
  if (made?.status !== status || made.attempts !== attempts)
    throw new Error(`No ${status} was made`);
  return made;
}

type Verb = (store: SubmissionStore, seen: Seen) => unknown;

const settle =
  (status: SettledState["status"]): Verb =>
  (store, seen) =>
    store.settle(seen, { status }, NOW + 1);

/** Every verb that changes a status: to which, whether only as its caller saw the submission, and from where alone. */
const VERBS: Record<
  string,
  { verb: Verb; to: SubmissionStatus; isFenced: boolean; only?: SubmissionStatus }
> = {
  claim: { verb: (store, { seq }) => store.claim(seq, NOW + 1), to: "running", isFenced: false },
  startOver: {
    verb: (store, { seq, attempts }) => store.startOver({ seq, attempts }, 0),
    to: "pending",
    isFenced: true,
  },
  "settle completed": { verb: settle("completed"), to: "completed", isFenced: true },
  "settle error": { verb: settle("error"), to: "error", isFenced: true },
  "settle aborted": { verb: settle("aborted"), to: "aborted", isFenced: true },
  "settle skipped": { verb: settle("skipped"), to: "skipped", isFenced: true },
  skipPending: {
    verb: (store, { seq }) =>
      store
        .skipPending("main", { name: "E", message: "e" }, NOW + 1)
        .find((row) => row.seq === seq),
    to: "skipped",
    isFenced: false,
    only: "pending",
  },
};

const CASES = Object.entries(VERBS).flatMap(([name, { to, only }]) =>
  STATUSES.map((from) => {
    const isAllowed =
      (NEXT[from] as readonly SubmissionStatus[]).includes(to) && (only ?? from) === from;
    return { name, from, to, takesEffect: isAllowed };
  }),
);

describe("L2: a status changes only as the table allows", () => {
  it.each(CASES)("$name of $from takes effect: $takesEffect", ({ name, from, to, takesEffect }) =>
    onStore((store, { submission, row }) => {
      const seen = submission(from);
      const { seq, submissionId } = seen;
      const before = row(seq);
      const result = VERBS[name]?.verb(store, seen);
      if (takesEffect) {
        expect(result).toMatchObject({ seq, status: to });
        expect(store.find(submissionId)?.status).toBe(to);
      } else {
        expect(result).toBeUndefined();
        expect(row(seq)).toEqual(before);
      }
    }),
  );

  it("every status can be reached and every terminal one is final", () => {
    expect(TERMINAL).toEqual(["completed", "error", "aborted", "skipped"]);
    expect(new Set(Object.values(NEXT).flat())).toEqual(new Set(STATUSES));
    expect(CASES.filter(({ takesEffect }) => takesEffect).map(({ from }) => from)).not.toContain(
      "completed",
    );
  });
});

const FENCED = Object.keys(VERBS).filter((name) => VERBS[name]?.isFenced);

describe("L2: a transition for another attempt changes nothing", () => {
  it.each(FENCED.flatMap((name) => STATUSES.map((from) => ({ name, from }))))(
    "$name of $from by another attempt",
    ({ name, from }) =>
      onStore((store, { submission, row }) => {
        const { seq, status, attempts } = submission(from);
        const before = row(seq);
        for (const stale of [attempts - 1, attempts + 1, attempts + 2]) {
          expect(VERBS[name]?.verb(store, { seq, status, attempts: stale })).toBeUndefined();
        }
        expect(row(seq)).toEqual(before);
      }),
  );

  it.each(STATUSES)("a settlement by who saw it in another state than %s", (from) =>
    onStore((store, { submission, row }) => {
      const { seq, attempts } = submission(from);
      const before = row(seq);
      for (const seen of STATUSES.filter((status) => status !== from)) {
        for (const status of TERMINAL) {
          expect(
            store.settle({ seq, status: seen, attempts }, { status }, NOW + 1),
          ).toBeUndefined();
        }
      }
      expect(row(seq)).toEqual(before);
    }),
  );

  it.each(["error", "aborted", "skipped"] as const)(
    "L2: an attempt that was started over cannot end as %s what waits for its next one",
    (status) =>
      onStore((store, { submission, row }) => {
        const seen = submission("running");
        const { seq, attempts } = seen;
        store.startOver({ seq, attempts }, 0);
        const before = row(seq);
        expect(store.settle(seen, { status }, NOW + 1)).toBeUndefined();
        expect(row(seq)).toEqual(before);
      }),
  );

  it.each(STATUSES)("L7: an answer to one that is %s", (from) =>
    onStore((store, { submission, row }) => {
      const { seq, attempts } = submission(from);
      const before = row(seq);
      const answer = (attempt: number, output: string) =>
        store.answers.record({ seq, attempt }, output);
      expect(answer(attempts - 1, '"stale"')).toBe(false);
      expect(answer(attempts + 1, '"early"')).toBe(false);
      expect(answer(attempts, "null")).toBe(from === "running");
      expect(answer(attempts, '"second"')).toBe(false);
      expect(row(seq)).toEqual(before);
      const ended = store.settle({ seq, status: from, attempts }, { status: "completed" }, NOW);
      expect(ended?.output?.read()).toBe(from === "running" ? null : undefined);
    }),
  );
});

describe("what the verbs write", () => {
  it("L6: a claim counts the attempt, and starting over does not reset the count", () =>
    onStore((store, { submission }) => {
      const { seq } = submission("pending", 0);
      expect(store.claim(seq, NOW + 5)).toMatchObject({ attempts: 1, startedAt: NOW + 5 });
      expect(store.startOver({ seq, attempts: 1 }, 0)).toMatchObject({
        attempts: 1,
        startedAt: undefined,
        status: "pending",
      });
      expect(store.claim(seq, NOW + 9)).toMatchObject({ attempts: 2, startedAt: NOW + 9 });
    }));

  it("L7: a settlement stores all facts of the turn", () =>
    onStore((store, { submission }) => {
      const running = submission("running");
      const facts = { requestId: "r", messageId: "m", usage: { inputTokens: 1, outputTokens: 2 } };
      const failure = { name: "OopsError", message: "oops" };
      expect(store.settle(running, { status: "error", failure, ...facts }, NOW + 7)).toMatchObject({
        ...facts,
        error: "oops",
        errorName: "OopsError",
        settledAt: NOW + 7,
      });
    }));

  it("L4: the next pending one is the oldest, and none of another state", () =>
    onStore((store, { submission }) => {
      for (const status of [...TERMINAL, "running"] as const) submission(status);
      expect(store.open.nextPending("main")).toBeUndefined();
      expect(store.open.threads()).toEqual(["main"]);
      const waiting = [
        submission("pending", 0),
        submission("pending", 1),
        submission("pending", 0),
      ];
      for (const { seq } of waiting) {
        expect(store.open.nextPending("main")?.seq).toBe(seq);
        store.claim(seq, NOW);
      }
      expect(store.open.running().map(({ seq }) => seq)).toEqual(
        expect.arrayContaining(waiting.map(({ seq }) => seq)),
      );
    }));

  it.each(STATUSES)("deletes one that is %s only if it has ended", (status) =>
    onStore(({ history }, { submission, row }) => {
      const { seq, submissionId } = submission(status);
      history.delete(TERMINAL, NOW, 1_000);
      expect(row(seq)).toBeDefined();
      expect(history.deleteOne(submissionId)).toBe(isTerminal(status));
      expect(row(seq) === undefined).toBe(isTerminal(status));
    }),
  );

  it.each(STATUSES)("W1: takes the key from one that is %s, and nothing else", (status) =>
    onStore((store, { submission, row }) => {
      const { seq, idempotencyKey = "" } = submission(status);
      const before = row(seq);
      store.releaseKey(seq);
      expect(store.findByKey(idempotencyKey)).toBeUndefined();
      expect(row(seq)).toEqual({ ...(before as object), idempotency_key: null });
    }),
  );

  it("finds by a message the open one before the ended ones", () =>
    onStore((store, { submission }) => {
      const ended = submission("completed");
      const open = submission("running");
      const ids = [ended, open].map(({ messages }) => messages[0]?.id ?? "");
      expect(store.findByMessage(new Set(ids))?.seq).toBe(open.seq);
      expect(store.findByMessage(new Set(ids.slice(0, 1)))?.seq).toBe(ended.seq);
      expect(store.findByMessage(new Set(["unknown"]))).toBeUndefined();
    }));
});
