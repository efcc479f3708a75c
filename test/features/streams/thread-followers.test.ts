/**
 * Followers of a thread on real rows, under random events, lost connections and restarts: each end and each message comes once,
 * in the order of the ends, and what a client knows is what is stored.
 */

import { beforeAll, describe, expect, it } from "vitest";
import type { FollowEvent } from "../../../src/features/streams/events.ts";
import { Followers } from "../../../src/features/streams/followers.ts";
import { inspect } from "../../../src/submissions/inspection.ts";
import { readLimits } from "../../../src/submissions/options.ts";
import type { Submission, Summary } from "../../../src/submissions/store/rows.ts";
import { SubmissionStore } from "../../../src/submissions/store/store.ts";
import { ThreadHistory } from "../../../src/submissions/store/threads.ts";
import { givenLedger } from "../../support/given.ts";
import { within } from "../../support/ledger.ts";
import { limitMs, sizeOf } from "../../support/sizes.ts";

const RUNS = sizeOf("FOLLOWERS_RUNS", 8);
const SEED = sizeOf("FOLLOWERS_SEED", 1);
const STEPS = 80;
const STATUSES = ["completed", "error", "aborted", "skipped"] as const;

/** Numbers that look random, the same for a seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761 + 12_345;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return ((state >>> 8) / 2 ** 24) * below < below
      ? Math.floor(((state >>> 8) / 2 ** 24) * below)
      : 0;
  };
}

/** The ledger's rows, and the followers of one instance of the object. */
class World {
  now = 1_700_000_000_000;
  store: SubmissionStore;
  followers: Followers;

  constructor(
    private readonly storage: DurableObjectStorage,
    readonly thread: string,
  ) {
    this.store = new SubmissionStore(storage, readLimits());
    this.followers = this.#start();
  }

  #start(): Followers {
    this.store = new SubmissionStore(this.storage, readLimits());
    const { store, storage } = this;
    return new Followers(
      {
        submissions: {
          inspect: async (id: string) => this.#inspected(store.find(id)) as never,
          ready: async () => {},
        },
        clock: { now: () => this.now },
        historyOf: (thread: string) => new ThreadHistory(storage.sql, thread),
        threads: {
          message: async (_, id) => ({
            id,
            role: "assistant",
            parts: [{ type: "text", text: id }],
          }),
        },
        approvals: { inspect: async () => null },
      },
      1_000,
      2,
    );
  }

  #inspected(found: Submission | undefined) {
    return found ? inspect(found) : null;
  }

  restart(): void {
    this.now++;
    this.followers = this.#start();
  }

  tell(row: Summary | undefined): void {
    if (row) this.followers.status(inspect(row));
  }

  rows(): Submission[] {
    const query = "SELECT seq FROM perdure_submissions WHERE thread = ? ORDER BY seq";
    const seqs = this.storage.sql.exec<{ seq: number }>(query, this.thread).toArray();
    return seqs.map(({ seq }) => this.store.get(seq) as Submission);
  }

  submit(thread = this.thread, isGenerated = true): void {
    const submissionId = isGenerated ? this.store.newId() : crypto.randomUUID();
    const unset = undefined;
    const row = this.store.accept(
      {
        submissionId,
        isGenerated,
        isRetry: false,
        idempotencyKey: unset,
        messages: "[]",
        metadata: unset,
        thread,
        channel: unset,
        answer: unset,
        limits: unset,
        notify: unset,
        run: unset,
        retry: unset,
        rank: 0,
        notBefore: unset,
        expiresAt: unset,
        budget: unset,
        traceParent: unset,
        debounceKey: unset,
        debounceUntil: unset,
        batch: unset,
      },
      this.now,
    );
    this.tell(row);
  }

  end(seen: Submission, status: (typeof STATUSES)[number]): void {
    const isDone = seen.status === "running" && status === "completed";
    const ending = isDone
      ? { status, messageId: `message-${seen.submissionId}` }
      : { status: status === "completed" ? ("aborted" as const) : status };
    this.tell(
      this.store.settle(seen, ending, this.now) ??
        this.store.settle(seen, { status: "aborted" }, this.now),
    );
  }
}

/** A page that follows the thread, and what it knows. */
class Client {
  readonly ids: string[] = [];
  readonly ends: string[] = [];
  readonly messages: string[] = [];
  readonly known = new Map<string, string>();
  resets = 0;
  #from: string | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(private readonly world: World) {}

  /** Reads at most so many events. Returns whether there were fewer. */
  async read(most: number): Promise<boolean> {
    for (let read = 0; read < most; read++) {
      const options = this.#from === undefined ? {} : { from: this.#from };
      this.#reader ??= (await this.world.followers.thread(this.world.thread, options)).getReader();
      const { value } = await this.#reader.read();
      const line = new TextDecoder().decode(value);
      if (line === "\n") return true;
      this.#take(JSON.parse(line) as FollowEvent);
    }
    return false;
  }

  async leave(): Promise<void> {
    await this.#reader?.cancel();
    this.#reader = undefined;
  }

  #take(event: FollowEvent): void {
    expect(event.id.length).toBeLessThan(1_000);
    this.#from = event.id;
    this.ids.push(event.id);
    if (event.type === "message") this.messages.push(event.submissionId);
    if (event.type === "reset") {
      if (this.ids.length > 1) this.resets++;
      for (const [id, status] of this.known) if (/^[pr]/.test(status)) this.known.delete(id);
    }
    if (event.type !== "status") return;
    const { submissionId, status, attempts } = event.submission;
    this.known.set(submissionId, `${status} ${attempts}`);
    if (status !== "pending" && status !== "running") this.ends.push(submissionId);
  }

  /** Reads all, and compares. */
  async check(deleted: ReadonlySet<string>): Promise<void> {
    while (!(await this.read(1_000)));
    const rows = this.world.rows();
    const stateOf = (row: Submission) => `${row.status} ${row.attempts}`;
    const open = rows.filter(({ settledAt }) => settledAt === undefined);
    const shown = [...this.known].filter(([, status]) => /^[pr]/.test(status));
    expect(new Map(shown)).toEqual(new Map(open.map((row) => [row.submissionId, stateOf(row)])));
    const ended = new Map(
      rows.flatMap((row) => (row.settledAt === undefined ? [] : [[row.submissionId, row]])),
    );
    const kept = (ids: readonly string[]) => ids.filter((id) => !deleted.has(id));
    expect(kept(this.ends).sort()).toEqual([...ended.keys()].sort());
    const times = kept(this.ends).map((id) => ended.get(id)?.settledAt ?? 0);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(kept(this.messages)).toEqual(
      kept(this.ends).filter((id) => ended.get(id)?.status === "completed"),
    );
    expect(new Set(this.ends).size).toBe(this.ends.length);
    if (this.resets === 0) expect(new Set(this.ids).size).toBe(this.ids.length);
  }
}

let stub: ReturnType<typeof givenLedger>;
beforeAll(async () => {
  stub = givenLedger();
  await stub.list();
});

async function play(storage: DurableObjectStorage, seed: number, withDeletions: boolean) {
  const below = randomOf(seed);
  const world = new World(storage, `thread-${crypto.randomUUID()}`);
  const clients = [new Client(world), new Client(world)];
  for (let open = below(3); open > 0; open--) world.submit();
  // Also in an idle thread the first event has a position to go on from.
  for (const client of clients) await client.read(1);
  const deleted = new Set<string>();
  const any = <T>(of: readonly T[]) => of[below(of.length)];
  const steps = [
    () => world.submit(),
    () => world.submit(world.thread, false),
    () => world.submit("another"),
    ...[1, 2, 3].map(() => () => {
      const pending = any(world.rows().filter(({ status }) => status === "pending"));
      if (pending) world.tell(world.store.claim(pending.seq, world.now));
    }),
    ...[1, 2, 3].map(() => () => {
      const open = any(world.rows().filter(({ settledAt }) => settledAt === undefined));
      if (open) world.end(open, any(STATUSES) ?? "error");
    }),
    () => {
      const running = any(world.rows().filter(({ status }) => status === "running"));
      if (running) world.tell(world.store.startOver(running, world.now));
    },
    () => {
      const ended = any(world.rows().filter(({ settledAt }) => settledAt !== undefined));
      if (!ended || !withDeletions) return;
      deleted.add(ended.submissionId);
      world.store.history.deleteOne(ended.submissionId);
    },
    async () => {
      for (const client of clients) await client.leave();
      world.restart();
    },
    ...[1, 2].map(() => () => any(clients)?.leave()),
    ...[1, 2, 3].map(() => async () => {
      await any(clients)?.read(1 + below(4));
    }),
  ];
  for (let step = 0; step < STEPS; step++) {
    const work = any(steps);
    await work?.();
    if (below(3) === 0) world.now++;
  }
  for (const client of clients) await client.check(deleted);
  for (const client of clients) await client.leave();
}

describe.each([false, true])("with deletions: %s", (withDeletions) => {
  it(
    "a follower gets each end and message once and in order, whatever interrupts it",
    async () => {
      for (let run = 0; run < RUNS; run++) {
        try {
          await within(stub, (_, { storage }) => play(storage, SEED + run, withDeletions));
        } catch (error) {
          throw new Error(`With VITE_PERDURE_FOLLOWERS_SEED=${SEED + run}`, { cause: error });
        }
      }
    },
    limitMs(60_000),
  );
});

it("a follower of an idle thread gets what was accepted and ended while it was not connected", async () => {
  await within(stub, async (_, { storage }) => {
    const world = new World(storage, `thread-${crypto.randomUUID()}`);
    world.submit("another");
    const client = new Client(world);
    for (let i = 0; i < 2; i++) {
      expect(await client.read(1_000)).toBe(true);
      expect(client.ids).toHaveLength(1);
      await client.leave();
    }
    world.submit();
    for (const row of world.rows()) world.end(row, "error");
    world.restart();
    await client.check(new Set());
    expect(client.ends).toHaveLength(1);
    expect(client.resets).toBe(0);
  });
});

it("a follower gets an end of the millisecond of its position although a reset comes before it", async () => {
  await within(stub, async (_, { storage }) => {
    const world = new World(storage, `thread-${crypto.randomUUID()}`);
    for (let i = 0; i < 2; i++) world.submit();
    const client = new Client(world);
    await client.read(1);
    await client.leave();
    const [first, second] = world.rows();
    if (!first || !second) throw new Error("Two submissions were accepted");
    for (const row of [first, second]) world.end(row, "error");
    world.store.history.deleteOne(first.submissionId);
    await client.read(1);
    expect(client.resets).toBe(1);
    await client.leave();
    await client.check(new Set());
    expect(client.ends).toEqual([second.submissionId]);
  });
});

it("a follower gets the end of a submission with the number of a deleted one whose end it was sent", async () => {
  await within(stub, async (_, { storage }) => {
    const world = new World(storage, `thread-${crypto.randomUUID()}`);
    const client = new Client(world);
    world.submit();
    await client.read(2);
    for (const row of world.rows()) world.end(row, "error");
    await client.read(1);
    await client.leave();
    const deleted = new Set(client.ends);
    expect(deleted.size).toBe(1);
    for (const id of deleted) world.store.history.deleteOne(id);
    world.restart();
    world.submit();
    for (const row of world.rows()) world.end(row, "error");
    await client.check(deleted);
    expect(client.ends).toHaveLength(2);
  });
});

it("a follower gets thousands of ends that it missed, in pages, with ids of a bounded length", async () => {
  await within(stub, async (_, { storage }) => {
    const world = new World(storage, `thread-${crypto.randomUUID()}`);
    for (let i = 0; i < 200; i++) world.submit();
    const client = new Client(world);
    while (!(await client.read(1_000)));
    await client.leave();
    for (let i = 0; i < 2_300; i++) world.submit(world.thread, false);
    for (const [i, row] of world.rows().entries()) {
      if (i % 2 === 0) world.now++;
      if (i >= 20) world.end(row, "skipped");
    }
    await client.read(1_500);
    await client.leave();
    world.restart();
    await client.check(new Set());
    expect(client.resets).toBe(0);
    // What is chosen is found by its number, however much is stored.
    let rowsRead = 0;
    const exec = (query: string, ...bindings: SqlStorageValue[]) => {
      const cursor = storage.sql.exec(query, ...bindings);
      const toArray = () => {
        const rows = cursor.toArray();
        rowsRead += cursor.rowsRead;
        return rows;
      };
      return { toArray };
    };
    const counted = new ThreadHistory({ exec } as unknown as SqlStorage, world.thread);
    const [first] = world.rows();
    const next = (counted.newest()?.seq ?? 0) + 1;
    const { open } = counted.read([first?.seq ?? 0], next, [world.now, next]);
    expect(open).toHaveLength(1);
    expect(rowsRead).toBeLessThan(20);
  });
});

it("a follower is refused the id of an event of another kind, with the remedy", async () => {
  await within(stub, async (_, { storage }) => {
    const world = new World(storage, "side");
    for (const from of ["s:12345678.1.r1", "t.1.1.1.1", "t.1.1.1.1.1~1.x", "end"])
      await expect(world.followers.thread("side", { from })).rejects.toThrow(
        "Without from, the stream begins anew",
      );
  });
});
