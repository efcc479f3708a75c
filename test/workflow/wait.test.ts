/** How a step waits, on a platform of this test: any events at any time, any end, and a replay of all of it (W2, W3). */

import type { AgentWorkflowStep } from "agents/workflows";
import fc from "fast-check";
import { expect, it } from "vitest";
import { eventOrEnd } from "../../src/workflow/wait.ts";
import { sizeOf } from "../support/sizes.ts";

const START = 1_000_000;
/** What a call of the agent takes. */
const CALL_MS = 5;
const PROOF = "the proof";

type Sent = { at: number; payload: unknown };

/** Remembers what its steps came to, and has events that wait for whoever waits for them. */
class Platform {
  now = START;
  readonly names: string[] = [];
  #inbox: Sent[];
  #results = new Map<string, { value?: unknown; error?: Error }>();

  constructor(sent: readonly Sent[]) {
    this.#inbox = sent.toSorted((one, other) => one.at - other.at);
  }

  /** A new run finds what the steps came to. */
  replayed(): Platform {
    const next = new Platform(this.#inbox);
    next.#results = this.#results;
    return next;
  }

  get step(): AgentWorkflowStep {
    const step = {
      do: (name: string, _config: unknown, work: () => Promise<unknown>) =>
        this.#once(name, async () => {
          this.now += CALL_MS;
          return work();
        }),
      sleep: (name: string, ms: number) =>
        this.#once(name, async () => {
          this.now += ms;
        }),
      waitForEvent: (name: string, { timeout }: { timeout: number }) =>
        this.#once(name, async () => {
          const [next] = this.#inbox;
          if (!next || next.at > this.now + timeout) {
            this.now += timeout;
            throw new Error(`Execution timed out after ${timeout}ms`);
          }
          this.#inbox = this.#inbox.slice(1);
          this.now = Math.max(this.now, next.at);
          return { payload: next.payload, timestamp: new Date(next.at), type: "t" };
        }),
    };
    return step as unknown as AgentWorkflowStep;
  }

  async #once(name: string, work: () => Promise<unknown>): Promise<unknown> {
    expect(this.names).not.toContain(name);
    this.names.push(name);
    let result = this.#results.get(name);
    if (!result) {
      result = await work().then(
        (value) => ({ value }),
        (error: Error) => ({ error }),
      );
      this.#results.set(name, result);
    }
    if (result.error) throw result.error;
    return result.value;
  }
}

type Case = {
  timeoutMs: number;
  /** After the start; none where it never ends. */
  endsAt: number | undefined;
  /** After the end; none where its event is lost. */
  eventAfter: number | undefined;
  forged: readonly { at: number; payload: unknown }[];
  /** Whether the request was accepted before proofs were known. */
  isOld: boolean;
};

const GENUINE = { id: "1", attempt: 1, event: { data: "told" }, proof: PROOF };

function play({ timeoutMs, endsAt, isOld }: Case, platform: Platform) {
  const wait = {
    type: "t",
    timeoutMs,
    proof: isOld ? undefined : PROOF,
    startedAt: isOld ? undefined : START,
  };
  const nameOf = (part: string) => part;
  const ask = async (isOver: boolean) => {
    if (endsAt !== undefined && platform.now >= START + endsAt) return "ended";
    return isOver ? "expired" : null;
  };
  return eventOrEnd<string>(platform.step, nameOf, wait, ask);
}

const time = fc.oneof(fc.integer({ min: 1, max: 60_000 }), fc.integer({ min: 1, max: 10_000_000 }));
const payload = fc.oneof(
  fc.anything(),
  fc.record({ event: fc.constant({ data: "forged" }), proof: fc.anything() }),
  fc.constant({ event: { data: "forged" } }),
  fc.constant(undefined),
);
const cases: fc.Arbitrary<Case> = fc.record({
  timeoutMs: time,
  endsAt: fc.option(time, { nil: undefined }),
  eventAfter: fc.option(fc.integer({ min: 0, max: 500 }), { nil: undefined }),
  forged: fc.array(fc.record({ at: fc.integer({ min: -1_000, max: 200_000 }), payload }), {
    maxLength: 40,
  }),
  isOld: fc.boolean(),
});

it("W3: no event but the agent's own ends a wait, and W2: each wait ends at its time", async () => {
  await fc.assert(
    fc.asyncProperty(cases, async (given) => {
      const { timeoutMs, endsAt, eventAfter, forged, isOld } = given;
      const sent = forged.map(({ at, payload }) => ({ at: START + at, payload }));
      if (endsAt !== undefined && eventAfter !== undefined) {
        sent.push({ at: START + endsAt + eventAfter, payload: GENUINE });
      }
      const platform = new Platform(sent);
      const found = await play(given, platform);
      const steps = platform.names.length;
      const over = START + timeoutMs;
      if ("event" in found) {
        expect(found.event).toEqual(GENUINE.event);
      } else if (found.end === "ended") {
        expect(platform.now).toBeGreaterThanOrEqual(START + (endsAt ?? 0));
      } else {
        expect(found.end).toBe("expired");
        expect(platform.now).toBeGreaterThanOrEqual(over);
        // What had ended at the last look is never called expired.
        expect(endsAt === undefined || START + endsAt > over).toBe(true);
      }
      // An old wait does not know when it began: each event may begin its present length again.
      if (!isOld) expect(platform.now).toBeLessThanOrEqual(over + steps * CALL_MS);
      // 20 events, 4 lengths of waiting, and sleeps that double, each with a question.
      expect(steps).toBeLessThanOrEqual(2 * (20 + 8 + 21) + 1);
      const again = platform.replayed();
      expect(await play(given, again)).toEqual(found);
      expect(again.names).toEqual(platform.names);
    }),
    { numRuns: sizeOf("WAITS_RUNS", 40) * 10 },
  );
});

it("W3: the agent's event ends the wait when it comes, also after events of others", async () => {
  const forged = Array.from({ length: 19 }, (_, at) => ({ at, payload: { event: {}, proof: at } }));
  const given = { timeoutMs: 86_400_000, endsAt: 300_000, eventAfter: 20, forged, isOld: false };
  const sent = forged.map(({ at, payload }) => ({ at: START + at, payload }));
  const platform = new Platform([...sent, { at: START + 300_020, payload: GENUINE }]);
  expect(await play(given, platform)).toEqual({ event: GENUINE.event });
  expect(platform.now).toBe(START + 300_020);
});

it("W3: after a flood the agent is asked within twice the time that has passed", async () => {
  const forged = Array.from({ length: 500 }, (_, at) => ({ at, payload: null }));
  for (const endsAt of [1_000, 60_000, 3_600_000, 40_000_000]) {
    const given = { timeoutMs: 86_400_000, endsAt, eventAfter: undefined, forged, isOld: false };
    const sent = forged.map(({ at, payload }) => ({ at: START + at, payload }));
    const platform = new Platform(sent);
    expect(await play(given, platform)).toEqual({ end: "ended" });
    expect(platform.now - START).toBeLessThan(2 * endsAt + 11_000);
  }
});
