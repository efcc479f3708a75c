/** Calls of workflow steps with one wrong value, as a step of another version or an untyped caller sends them. */

import { expect, it } from "vitest";
import { codemode } from "../../../src/features/codemode/index.ts";
import { inbound, signedLinks } from "../../../src/features/inbound/index.ts";
import { LINKS } from "../../support/features.ts";
import { jobsIn } from "../../support/jobs.ts";
import { inObject, plainObject } from "../../support/plain-object.ts";

const WRONG: readonly unknown[] = [
  ...[undefined, null, true, 0, -1, 1.5, Number.NaN, "", "text", "\ud83d"],
  ...[{}, { name: 1 }, [], [null], [7], [{}], [[]]],
];

const workflow = { name: "PROMPT_WORKFLOW", id: "o1", stepName: "ask" };
const settings = {
  answer: { schema: { type: "object" }, strategy: "auto", repair: 1, maxSteps: 3 },
  thread: "isolated",
  budget: { tokens: 10 },
  retry: { maxAttempts: 1 },
};
const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "x" }] }];
const closing = { status: "expired", result: null };

/** The requests that a step of each kind makes. */
const REQUESTS = {
  prompt: [{ ...settings, messages }, { problem: "no" }],
  batch: [
    { ...settings, concurrency: 2, items: [{ idempotencyKey: "item", key: "1", messages }] },
    { refused: [{ submissionId: "s", problem: "no" }] },
  ],
  approval: [{ title: "t", data: { a: 1 }, schema: { type: "object" }, isOptional: true }],
  webhook: [{ from: "github", types: ["push"], match: { "a.b": 1 }, lookbackMs: 0 }],
  codemode: [{ code: "async () => 1", onReject: "keep" }],
};
type Kind = keyof typeof REQUESTS;
type Opened = { readonly waitId?: string; readonly submissionIds?: readonly string[] };

/** The value with a wrong one in each of its places, one at a time, and the place. */
function* withWrong(value: unknown, place = ""): Generator<[string, unknown]> {
  for (const wrong of WRONG) yield [`${place} = ${JSON.stringify(wrong)}`, wrong];
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    for (const [where, wrong] of withWrong(inner, `${place}.${key}`)) {
      const copy = structuredClone(value);
      if (wrong === undefined) Reflect.deleteProperty(copy, key);
      else Reflect.set(copy, key, wrong);
      yield [where, copy];
    }
  }
}

/** Makes calls, and collects what is wrong with refusals. */
class Caller {
  readonly wrongs: string[] = [];
  refused = 0;
  #opened = 0;

  constructor(
    private readonly kind: Kind,
    private readonly ctx: DurableObjectState,
    private readonly object: ReturnType<typeof plainObject>,
  ) {}

  /** Returns what the call returns, or undefined where it is refused. */
  async call(place: string, verb: string, ...args: unknown[]): Promise<unknown> {
    const before = this.#rows();
    try {
      return await this.object.durable.callKernel(verb, ...args);
    } catch (error) {
      this.refused++;
      const { name, message } = error as Error;
      const call = `${verb}() with ${place}`;
      if (!/^(Invalid\w+|BacklogFull)Error$/.test(name)) {
        this.wrongs.push(`${call} throws ${name}: ${message}`);
      }
      if (this.#rows() !== before) this.wrongs.push(`${call} stores a row`);
      return undefined;
    }
  }

  asked(request: object) {
    const idempotencyKey = `wait-${++this.#opened}`;
    const rest = { run: "r", workflow, timeoutMs: 60_000, refuses: "s" };
    return { kind: this.kind, idempotencyKey, ...rest, request: structuredClone(request) };
  }

  /** What a step sends of a wait that was opened. */
  waitOf({ waitId = "w", submissionIds = [] }: Opened) {
    const ofBatch = { submissionIds, workflow, eventType: "e", proof: "p", failsFast: true };
    return { kind: this.kind, waitId, ...(this.kind === "batch" && ofBatch) };
  }

  async open() {
    const asked = this.asked(REQUESTS[this.kind][0] as object);
    return this.waitOf((await this.object.durable.callKernel("openWait", asked)) as Opened);
  }

  /** Rows that only an accepted call adds. */
  #rows(): string {
    const { sql } = this.ctx.storage;
    const { n } = sql.exec("SELECT COUNT(*) AS n FROM perdure_submissions").one();
    return `${n},${jobsIn(sql).length}`;
  }
}

it.each(Object.keys(REQUESTS) as Kind[])(
  "W1: a step's call with a wrong value is taken, or refused by an error of Perdure that stores nothing: %s",
  (kind) =>
    inObject(async (ctx, env) => {
      const object = plainObject(ctx, env, [inbound(), signedLinks(LINKS), codemode()]);
      await object.lifecycle.start();
      const caller = new Caller(kind, ctx, object);
      for (const request of REQUESTS[kind]) {
        for (const [place, wrong] of withWrong(caller.asked(request))) {
          const opened = await caller.call(place, "openWait", wrong);
          if (typeof opened !== "object" || opened === null) continue;
          // What was taken can be asked for, and closed.
          await caller.call(place, "checkWait", caller.waitOf(opened));
          await caller.call(place, "closeWait", caller.waitOf(opened), closing);
        }
      }
      const wait = await caller.open();
      for (const [place, wrong] of withWrong(wait)) {
        await caller.call(place, "checkWait", wrong);
        await caller.call(place, "readWait", wrong, 0);
      }
      for (const [place, wrong] of withWrong(0)) await caller.call(place, "readWait", wait, wrong);
      for (const [place, wrong] of withWrong([wait.waitId])) {
        await caller.call(place, "refuseWait", kind, wrong);
      }
      for (const [place, wrong] of withWrong(wait)) {
        await caller.call(place, "closeWait", wrong, closing);
      }
      for (const [place, wrong] of withWrong(closing)) {
        const next = await caller.open();
        await caller.call(place, "closeWait", next, wrong);
        await caller.call(place, "checkWait", next);
      }
      expect(caller.wrongs).toEqual([]);
      expect(caller.refused).toBeGreaterThan(100);
    }),
);
