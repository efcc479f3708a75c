/**
 * One submission with a destination, and a crash at every single write of it:
 * of its acceptance, its turn, its end, its delivery, and of the recovery from
 * an earlier crash. Whatever was committed when, the outcome is the same.
 */

import { afterAll, describe, expect, it } from "vitest";
import { NEXT, type SubmissionStatus } from "../src/submissions/states.ts";
import { ask } from "../src/testing/scripted-model.ts";
import { givenLedger, message, until } from "./support/given.ts";
import {
  again,
  arrived,
  crashOne,
  forever,
  type Ledger,
  sleep,
  somewhere,
  submit,
  waitingIn,
  within,
} from "./support/ledger.ts";
import { births, couriers, delivered, type LedgerObject } from "./support/ledger-object.ts";

/**
 * When the crash comes. Before and after the write itself, everything since the
 * last wait is lost with it; soon after, the write has been committed.
 */
const MOMENTS = ["before", "after", "soon after"] as const;
type Moment = (typeof MOMENTS)[number];
type Point = { readonly write: number; readonly moment: Moment };

const KINDS = { "a turn": submitTurn, "a prompt that is answered": submitPrompt };
type Kind = keyof typeof KINDS;

/** A caller that tries again with the same key until it has been told that its work was accepted. */
function submitTurn(stub: Ledger, to: ReturnType<typeof somewhere>) {
  return within(stub, ({ submissions }) =>
    submissions.submit([message({ delayMs: 5 })], { idempotencyKey: "k", notify: () => [to] }),
  );
}

function submitPrompt(stub: Ledger, { workflow, instance }: ReturnType<typeof somewhere>) {
  return within(stub, (object) =>
    object.prompt({
      idempotencyKey: "k",
      run: "1",
      workflow: { name: workflow, id: instance, stepName: "step" },
      messages: [
        {
          role: "user" as const,
          parts: [{ type: "text" as const, text: ask({ answer: { ok: true }, delayMs: 5 }) }],
        },
      ],
      answer: { schema: {} },
    }),
  );
}

/** Lets every phase of a life have a commit of its own: the light host is too fast otherwise. */
function slowDown({ turns }: LedgerObject): void {
  const run = turns.run.bind(turns);
  turns.run = async (turn) => {
    await sleep(5);
    return run(turn);
  };
}

function crashAt({ meter }: LedgerObject, ctx: DurableObjectState, { write, moment }: Point): void {
  meter.reset();
  const hook = (now: number) => {
    if (now !== write) return;
    if (moment === "soon after") setTimeout(() => ctx.abort("crash"), 0);
    else ctx.abort("crash");
  };
  meter[moment === "before" ? "onWrite" : "onWritten"] = hook;
}

/** A history of statuses that no crash can falsify: it commits with the change that it records. */
function keepHistory({ storage }: DurableObjectState): void {
  storage.sql.exec(`CREATE TABLE history (id TEXT, before TEXT, after TEXT);
    CREATE TRIGGER history_of_status AFTER UPDATE OF status ON perdure_submissions
    BEGIN INSERT INTO history VALUES (NEW.submission_id, OLD.status, NEW.status); END`);
}

type Outcome = {
  readonly writes: readonly string[];
  readonly lives: number;
  readonly problems: readonly string[];
};

/** One submission from its acceptance to its delivery, with a crash in its first life, and perhaps one in its second. */
async function live(
  kind: Kind,
  crashes: readonly (Point | undefined)[],
  isTouched: boolean,
): Promise<Outcome> {
  const stub = givenLedger();
  const to = somewhere();
  const writes: string[] = [];
  let lives = 0;
  births.set(stub.name ?? "", (object, ctx) => {
    slowDown(object);
    const crash = crashes[lives++];
    // The first life is prepared before it may crash.
    if (crash && lives > 1) crashAt(object, ctx, crash);
    if (lives === crashes.length && lives > 1)
      object.meter.onWrite ??= (_, what) => writes.push(what);
  });
  couriers.set(to.instance, () => sleep(5));
  await stub.list();
  await within(stub, (object, ctx) => {
    keepHistory(ctx);
    if (crashes[0]) crashAt(object, ctx, crashes[0]);
    else object.meter.onWrite = (_, what) => writes.push(what);
  });
  await until(() => KINDS[kind](again(stub), to).then(Boolean, () => false));
  // Nobody asks after it: the object comes back by its own alarm. Where that would take too long, it is called.
  await until(async () => {
    if (isTouched)
      await again(stub)
        .list()
        .catch(() => {});
    return delivered.has(to.instance);
  }, 25_000).catch(() => {});
  await until(
    () => within(again(stub), (_, ctx) => waitingIn(ctx).length === 0).catch(() => false),
    25_000,
  ).catch(() => {});
  await sleep(50);
  const problems = await within(again(stub), (object, ctx) =>
    problemsOf(object, ctx, to.instance),
  ).catch((error) => [String(error)]);
  return { writes, lives, problems };
}

/** What is not as it has to be, whatever happened. */
async function problemsOf(
  object: LedgerObject,
  ctx: DurableObjectState,
  instance: string,
): Promise<string[]> {
  const problems: string[] = [];
  const check = (isRight: boolean, problem: string) => isRight || problems.push(problem);
  const submissions = await object.list();
  const [submission] = submissions;
  check(submissions.length === 1, `${submissions.length} submissions instead of one`);
  check(submission?.status === "completed", `it is ${submission?.status}`);
  const history = ctx.storage.sql
    .exec<{ id: string; before: SubmissionStatus; after: SubmissionStatus }>(
      "SELECT * FROM history",
    )
    .toArray();
  for (const { before, after } of history) {
    check(
      (NEXT[before] as readonly string[]).includes(after),
      `${before} was followed by ${after}`,
    );
  }
  const ends = history.filter(({ after }) => NEXT[after].length === 0);
  check(ends.length === 1, `it ended ${ends.length} times`);
  const conversation = await object.conversation();
  check(conversation.length === 2, `the conversation is ${conversation}`);
  const told = delivered.get(instance) ?? [];
  check(told.length > 0, "the destination was not told");
  check(new Set(told.map(({ id }) => id)).size === 1, `delivery ids: ${told.map(({ id }) => id)}`);
  const payloads = new Set(told.map(({ payload }) => JSON.stringify(payload)));
  check(payloads.size === 1, `payloads: ${[...payloads]}`);
  check(
    [...payloads].every((payload) => payload.includes('"completed"')),
    `it was told ${[...payloads]}`,
  );
  check(waitingIn(ctx).length === 0, "the outbox is not empty");
  return problems;
}

const tried: Record<string, number> = {};
afterAll(() => {
  const points = Object.values(tried).reduce((sum, count) => sum + count, 0);
  console.log(`${points} crash points tried:`, tried);
});

const label = (what: string | undefined) => what?.replaceAll(/\s+/g, " ").slice(0, 60) ?? "?";

async function tryAll(
  points: readonly Point[],
  writes: readonly string[],
  run: (point: Point) => Promise<Outcome>,
) {
  const outcomes = await Promise.all(
    points.map(async (point) => ({ ...point, ...(await run(point)) })),
  );
  const wrong = outcomes
    .filter(({ problems }) => problems.length > 0)
    .map(
      ({ write, moment, problems }) =>
        `${moment} write ${write} (${label(writes[write - 1])}): ${problems.join("; ")}`,
    );
  expect(wrong).toEqual([]);
  return outcomes.map(({ lives }) => lives);
}

const pointsOf = (writes: readonly string[]): Point[] =>
  writes.flatMap((_, index) => MOMENTS.map((moment) => ({ write: index + 1, moment })));

describe.concurrent("L1 O1 O2 one end, one set of messages, told at least once with one id", () => {
  it.each(Object.keys(KINDS) as Kind[])("whenever the object crashes in %s", async (kind) => {
    const { writes, problems, lives } = await live(kind, [undefined], false);
    expect({ problems, lives }).toEqual({ problems: [], lives: 1 });
    for (const phase of [
      /INTO perdure_submissions/,
      /'running'/,
      /INTO conversation/,
      /status = \?/,
      /INTO perdure_outbox/,
      /FROM perdure_outbox/,
    ]) {
      expect(
        writes.some((what) => phase.test(what)),
        `a write like ${phase}`,
      ).toBe(true);
    }
    const lifes = await tryAll(pointsOf(writes), writes, (point) => live(kind, [point], false));
    // Each point was reached, and each crash survived by a second life.
    expect(new Set(lifes)).toEqual(new Set([2]));
    tried[kind] = lifes.length;
  });

  it.each(Object.keys(KINDS) as Kind[])(
    "whenever it crashes again in the recovery of %s",
    async (kind) => {
      const first = await live(kind, [undefined], false);
      const begun = first.writes.findIndex((what) => what.includes("INTO conversation")) + 1;
      const inTurn: Point = { write: begun, moment: "soon after" };
      const { writes, problems } = await live(kind, [inTurn, undefined], true);
      expect(problems).toEqual([]);
      expect(writes.length).toBeGreaterThan(3);
      const lifes = await tryAll(pointsOf(writes), writes, (point) =>
        live(kind, [inTurn, point], true),
      );
      expect(Math.min(...lifes)).toBeGreaterThanOrEqual(2);
      tried[`recovery of ${kind}`] = lifes.filter((count) => count === 3).length;
    },
  );
});

/** What storage holds at the birth of an object's next life: its submission's status, and how many entries. */
function atNextBirth(stub: Ledger): Promise<{ status: unknown; entries: number }> {
  return new Promise((resolve) => {
    births.set(stub.name ?? "", (_, ctx) => {
      const { sql } = ctx.storage;
      const row = sql.exec("SELECT status FROM perdure_submissions").toArray()[0];
      resolve({ status: row?.status, entries: waitingIn(ctx).length });
    });
  });
}

/** The writes that end a submission with two destinations. */
const SETTLE = ["SET status = ?", "INSERT INTO perdure_outbox"];

describe("O1 a terminal state and its entries commit together", () => {
  it.each(["completed", "error", "aborted", "skipped"] as const)("%s", async (status) => {
    const stub = givenLedger();
    const to = [somewhere(), somewhere()];
    for (const { instance } of to) couriers.set(instance, forever);
    const seen: unknown[] = [];
    await stub.list();
    await within(stub, ({ meter, turns }, ctx) => {
      // What is cancelled or skipped has to wait for something.
      if (status === "aborted" || status === "skipped") turns.run = forever;
      meter.onWritten = (_, what) => {
        if (!what.includes("INSERT INTO perdure_outbox")) return;
        seen.push(ctx.storage.sql.exec("SELECT status FROM perdure_submissions").one().status);
      };
    });
    await submit(stub, status === "error" ? { fail: "no" } : {}, {
      submissionId: "s",
      notify: () => to,
    });
    if (status === "aborted") await stub.cancel("s");
    if (status === "skipped") await stub.skipPending();
    await until(async () => (await stub.inspect("s"))?.status === status, 5_000);
    expect(seen).toEqual([status, status]);
    await within(stub, (_, ctx) => expect(waitingIn(ctx)).toHaveLength(2));
  });

  it.each(SETTLE.flatMap((write) => ["before", "after"].map((when) => ({ write, when }))))(
    "also when the object crashes $when $write",
    async ({ write, when }) => {
      const stub = givenLedger();
      const to = [somewhere(), somewhere()];
      for (const { instance } of to) couriers.set(instance, forever);
      await stub.list();
      await within(stub, ({ meter }, ctx) => {
        meter[when === "before" ? "onWrite" : "onWritten"] = (_, what) => {
          if (what.includes(write)) ctx.abort("crash");
        };
      });
      const found = atNextBirth(stub);
      await submit(stub, { delayMs: 20 }, { submissionId: "s", notify: () => to });
      await sleep(100);
      await again(stub).list();
      expect(await found).toEqual({ status: "running", entries: 0 });
      await until(async () => (await again(stub).inspect("s"))?.status === "completed");
      await within(again(stub), (_, ctx) => expect(waitingIn(ctx)).toHaveLength(2));
    },
  );

  it("also when an entry cannot be written", async () => {
    const stub = givenLedger();
    const to = [somewhere(), somewhere()];
    for (const { instance } of to) couriers.set(instance, forever);
    await stub.list();
    await within(stub, ({ meter }) => {
      meter.onWrite = (_, what) => {
        if (!what.includes("INSERT INTO perdure_outbox")) return;
        meter.onWrite = undefined;
        throw new Error("disk full");
      };
    });
    await submit(stub, { delayMs: 20 }, { submissionId: "s", notify: () => to });
    await sleep(100);
    await within(stub, (_, ctx) => {
      const { status } = ctx.storage.sql.exec("SELECT status FROM perdure_submissions").one();
      expect([status, waitingIn(ctx).length]).not.toEqual(["completed", 0]);
    });
    for (const { instance } of to) couriers.delete(instance);
    await (await crashOne(stub)).list();
    await arrived(to[0] ?? somewhere());
  });
});
