/**
 * The step of the platform in a replay. It finds steps as the platform does, by their kind, name and count, and answers from the
 * history. It executes no code of the app. The code of Perdure's own steps asks the agent of the replay.
 */

import type { Json } from "../../core/json.ts";
import { fromTypedJson } from "../../core/typed-json.ts";
import type { PlatformStep } from "../../features/deploy/types.ts";
import { AGENT_CALL } from "../../workflow/step-call.ts";
import { type Calls, type ReplayedAgent, shortEnd } from "./agent.ts";
import { idOf, type Recorded } from "./record.ts";

/** A step that the code has asked for. */
export type Ask = {
  readonly kind: PlatformStep["kind"];
  readonly name: string;
  readonly count: number;
  /** Undefined for a new one. */
  readonly recorded: PlatformStep | undefined;
  /** What the agent was asked for, by a step of Perdure. */
  calls?: Calls;
  /** Its position among all asks and answers. */
  readonly askedAt: number;
  answeredAt?: number;
};

/** How steps are answered that the history does not have. */
export type Answers = {
  /** They stay open, as while they run. */
  readonly isWaiting: boolean;
  /** The answer of a step, and of a call outside of a step, that no history has. */
  readonly unknown: () => unknown;
};

/** More steps and calls than any run can make: code that never ends. */
const MOST_ASKS = 20_000;
/** New steps that have an answer: enough to come to the steps behind them. */
const MOST_NEW = 500;
const NEVER = new Promise<never>(() => {});

type Answer = {
  readonly ask: Ask;
  /** When the step has ended, and its place in the history among those of the same time. */
  readonly at: number;
  readonly place: number;
  readonly give: () => void;
};
type Waited = {
  readonly asked: string;
  readonly kind: string;
  readonly proof: unknown;
  readonly opened?: Calls["opened"];
};

export class ReplayedStep {
  readonly asks: Ask[] = [];
  /** Why the replay cannot go on, e.g. because an event has no payload in the history. */
  stopped: { readonly step: string; readonly why: string } | undefined;
  /** What the code has used that the history does not have. */
  readonly unknown = new Set<string>();
  /** Whether one of them was replaced by a value that looks like a real one. */
  hasSamples = false;
  /** Steps that wait for what has not happened yet. */
  waiting = 0;
  /** Steps of Perdure whose code runs. */
  busy = 0;
  readonly #counts = new Map<string, number>();
  readonly #answers: Answer[] = [];
  /** By the types of the events that steps of Perdure wait for. */
  readonly #waited = new Map<string, Waited>();
  #position = 0;
  #made = 0;
  #new = 0;
  #running: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly record: Recorded,
    private readonly agent: ReplayedAgent,
    private readonly answers: Answers,
  ) {}

  /** For what the code asks of other things than steps. */
  readonly note = (what: string): unknown => {
    this.unknown.add(what);
    return ++this.#made > MOST_ASKS ? this.#stop(what, ENDLESS) : this.answers.unknown();
  };

  /** Whether the code has asked for all steps of the history. */
  get hasAskedAll(): boolean {
    const asked = new Set(this.asks.map(idOf));
    return this.record.history.platform.every((step) => asked.has(idOf(step)));
  }

  /** Whether an answer was the last that happened: a schema may still check it. */
  get isChecking(): boolean {
    const asked = this.asks.at(-1)?.askedAt ?? 0;
    return this.#position > asked;
  }

  /** How much has happened, which is more after any progress. */
  get progress(): number {
    return this.#position + this.#made;
  }

  /** Answers the next step, in the order of the history. False where none waits for its answer. */
  answerNext(): boolean {
    const [next] = this.#answers.sort((one, other) => one.at - other.at || one.place - other.place);
    if (!next) return false;
    this.#answers.shift();
    next.ask.answeredAt = ++this.#position;
    next.give();
    return true;
  }

  readonly do = async (name: string, ...rest: readonly unknown[]): Promise<unknown> => {
    const ask = this.#ask("do", name);
    const code = rest.find((one) => typeof one === "function") as
      | (() => Promise<unknown>)
      | undefined;
    if (!code) throw new TypeError(`step.do(${JSON.stringify(name)}) got no function`);
    const [config] = rest as readonly { readonly retries?: object }[];
    const isOwn = name.startsWith("perdure:") || AGENT_CALL in Object(config?.retries);
    const own = isOwn && name !== VERSION_STEP ? await this.#own(ask, code) : undefined;
    const { recorded } = ask;
    if (!recorded) return this.#answerNew(ask, () => (own ? own.result() : this.#newResult(name)));
    if (recorded.status === "open") return this.#wait();
    return this.#answer(ask, () => {
      if (recorded.status !== "completed") throw errorOf(recorded);
      if (ask.calls?.located) return undefined;
      // It may have been too large.
      if (recorded.output === undefined && this.record.history.isCut !== undefined) {
        if (own) return own.result();
        return this.#stop(name, "its output is not in the history");
      }
      const output = this.#output(name, recorded.output);
      this.#noteReceipt(output, ask);
      return output;
    });
  };

  readonly sleep = async (name: string, _duration?: unknown): Promise<unknown> => {
    const ask = this.#ask("sleep", name);
    if (!ask.recorded) return this.#answerNew(ask, () => undefined);
    return ask.recorded.status === "open" ? this.#wait() : this.#answer(ask, () => undefined);
  };

  readonly sleepUntil = (name: string, time?: unknown): Promise<unknown> => this.sleep(name, time);

  readonly waitForEvent = async (name: string, options?: { type?: string }): Promise<unknown> => {
    const ask = this.#ask("event", name);
    const type = String(options?.type ?? "");
    const { recorded } = ask;
    if (!recorded)
      return this.#answerNew(ask, () => eventOf(type, this.answers.unknown(), Date.now()));
    if (recorded.status === "open") return this.#wait();
    return this.#answer(ask, () => {
      if (recorded.status !== "completed") throw timeoutError();
      const payload = this.#payload(name, type);
      const { endedAt = recorded.startedAt } = recorded;
      return payload === undefined ? this.#wait() : eventOf(type, payload, endedAt);
    });
  };

  #ask(kind: Ask["kind"], name: string): Ask {
    if (typeof name !== "string") throw new TypeError(`A step got ${String(name)} as its name`);
    const id = `${kind} ${name}`;
    const count = (this.#counts.get(id) ?? 0) + 1;
    this.#counts.set(id, count);
    const recorded = this.record.step(kind, name, count);
    const ask: Ask = { kind, name, count, recorded, askedAt: ++this.#position };
    if (this.asks.length < MOST_ASKS) this.asks.push(ask);
    return ask;
  }

  /** Runs the code of a step of Perdure, one after the other, so that its calls are known to be its own. */
  #own(ask: Ask, code: () => Promise<unknown>): Promise<{ readonly result: () => unknown }> {
    const run = async () => {
      const calls: Calls = {};
      this.agent.calls = calls;
      try {
        const value = await code();
        return { result: () => value };
      } catch (error) {
        return {
          result: () => {
            throw error;
          },
        };
      } finally {
        ask.calls = calls;
        this.agent.calls = undefined;
        this.busy--;
        const { waits, opened } = calls;
        const kind = opened?.kind ?? "batch";
        // A wait that was asked after has its receipt already.
        if (waits && !this.#waited.has(waits.eventType))
          this.#waited.set(waits.eventType, { asked: "", kind, proof: waits.proof });
      }
    };
    this.busy++;
    const result = this.#running.then(run);
    this.#running = result;
    return result;
  }

  #answerNew(ask: Ask, result: () => unknown): Promise<unknown> {
    const isWaiting = this.answers.isWaiting || ++this.#new > MOST_NEW;
    // A further look at a wait that has ended returns what the history has of it.
    const isKnown = ask.name === VERSION_STEP || ask.calls?.hasEnded === true;
    if (isWaiting && !isKnown) return this.#wait();
    return this.#answer(ask, () => {
      const value = result();
      this.#noteReceipt(value, ask);
      return value;
    });
  }

  /** The run began before its class had a version. */
  #newResult(name: string): unknown {
    return name === VERSION_STEP ? { version: null, changes: [] } : this.answers.unknown();
  }

  #answer(ask: Ask, result: () => unknown): Promise<unknown> {
    if (this.asks.length >= MOST_ASKS) return this.#stop(ask.name, ENDLESS);
    return new Promise((resolve, reject) => {
      const give = () => {
        try {
          resolve(result());
        } catch (error) {
          reject(error);
        }
      };
      const { recorded } = ask;
      const place = recorded ? this.record.placeOf(recorded) : -1;
      this.#answers.push({ ask, at: recorded?.endedAt ?? 0, place, give });
    });
  }

  #wait(): Promise<never> {
    this.waiting++;
    return NEVER;
  }

  #stop(step: string, why: string): Promise<never> {
    this.stopped ??= { step, why };
    return this.#wait();
  }

  /** What the agent has answered to a step that asks it: the event of the end has its type and its proof. */
  #noteReceipt(output: unknown, { calls }: Ask): void {
    const { waitId, eventType, proof } = Object(output) as Readonly<Record<string, unknown>>;
    if (typeof waitId !== "string" || typeof eventType !== "string") return;
    const opened = calls?.opened;
    const kind = this.record.asked(waitId)?.kind ?? opened?.kind ?? "";
    this.#waited.set(eventType, { asked: waitId, kind, proof, opened });
  }

  /** The payload of an event that has come. Undefined where the step waits for another one. */
  #payload(name: string, type: string): unknown {
    const waited = this.#waited.get(type);
    if (!waited) {
      this.unknown.add(`the payload of the event "${type}"`);
      return this.answers.unknown() ?? null;
    }
    // The step has asked the agent after the event, so it has not believed it.
    const round = /wait(?:-(\d+))?$/.exec(name)?.[1] ?? "1";
    if (this.record.has(name.replace(/wait(-\d+)?$/, `check-${round}`))) return {};
    const { asked, kind, proof, opened } = waited;
    if (kind === "batch") return { event: {}, proof };
    const known = this.record.asked(asked);
    // An event can hold more than the result of a step. What it could not hold was read in parts.
    const isInParts = this.record.has(name.replace(/wait(-\d+)?$/, "result-0"));
    const end = known && (isInParts ? shortEnd(known) : known.end);
    if (typeof end === "object" && end !== null)
      return { event: { data: asDelivered(end, kind) }, proof };
    // It was deleted, or another agent was asked.
    this.unknown.add(`the end of the step of ${JSON.stringify(name)}`);
    this.hasSamples = true;
    return { event: { data: this.agent.sampleOf(asked, opened) }, proof };
  }

  #output(name: string, output: Json | undefined): unknown {
    return fromTypedJson(output, (type) =>
      this.note(`the result of ${JSON.stringify(name)} (${type})`),
    );
  }
}

/** The step that records the version of a run. */
const VERSION_STEP = "perdure:version";
const ENDLESS = "it makes more steps and calls than a run can";

function eventOf(type: string, payload: unknown, at: number): object {
  return { type, payload, timestamp: new Date(at) };
}

/** A decision that its step has refused since has failed in its row, and was delivered before. */
function asDelivered(end: object, kind: string): object {
  const { status, result } = end as { status?: unknown; result?: unknown };
  const isRefused =
    kind === "approval" || (kind === "webhook" && Object.hasOwn(Object(result), "source"));
  return status === "failed" && isRefused ? { ...end, status: "completed" } : end;
}

function errorOf({ error }: PlatformStep): Error {
  const { name = "Error", message = "The step has failed" } = error ?? {};
  return Object.assign(new Error(message), { name });
}

function timeoutError(): Error {
  const error = new Error("Execution timed out");
  return Object.assign(error, { name: "WorkflowTimeoutError" });
}
