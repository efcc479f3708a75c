/**
 * The turns of one life of an object: each does what its plot says. Several of
 * them can be held at a time, but only one at a time goes on, and those that
 * have been started begin in that order: what comes of many is then no matter
 * of milliseconds.
 */

import {
  endWithAnswer,
  type Submissions,
  type Turn,
  type TurnEnd,
} from "../../../src/submissions/index.ts";
import { sleep } from "../../support/ledger.ts";
import { act } from "../../support/ledger-object.ts";
import { idOf, type Plot, type Rules, replyId } from "./entries.ts";

const ISOLATED = "isolated";

export type StageOwner = {
  readonly rules: Rules;
  /** How often the turn of a submission has failed, which no crash undoes. */
  readonly failed: Map<string, number>;
  /** Whether the app's status hook runs for a submission. */
  isTelling(name: string): boolean;
  /** What a submission is called by the model. */
  nameOf(submissionId: string): string;
};

export class Stage {
  /** Turns that ran side by side, and tools that ran twice, and must not have (L4, L6). */
  readonly breaches: string[] = [];
  /** The attempts whose turns are held, and what lets each of them go on. */
  readonly #held = new Map<string, () => void>();
  /** How many turns the ledger has started that have not come to their end. */
  #count = 0;
  /** The attempts that have begun and not ended, and their threads. */
  readonly #running = new Map<string, string>();
  /** Until when somebody else goes on. */
  #taken: Promise<void> = Promise.resolve();

  constructor(
    private readonly owner: StageOwner,
    private readonly submissions: Submissions,
    private readonly sql: SqlStorage,
  ) {}

  /** How many turns are on their way to be held, or to their end. */
  get playing(): number {
    return this.#count - this.#held.size;
  }

  /** The attempts whose turns are held, the longest held first. */
  get held(): string[] {
    return [...this.#held.keys()];
  }

  /** The nth of those that are held goes on. */
  release(nth: number): void {
    [...this.#held.values()][nth % Math.max(1, this.#held.size)]?.();
  }

  async run(turn: Turn): Promise<TurnEnd> {
    const name = this.owner.nameOf(turn.submissionId);
    const place = new Place(() => this.#enter());
    this.#count++;
    await place.take();
    let attempt: string | undefined;
    try {
      const ref = turn.begin();
      attempt = `${name}#${ref.attempt}`;
      this.#begin(attempt, turn);
      await turn.announced();
      this.#say(turn.thread, turn.messages);
      if (!turn.signal.aborted && this.owner.isTelling(name)) {
        this.breaches.push(`${attempt} calls the model while its hook runs`);
      }
      if (plotOf(turn.messages).effects) await this.#act(ref, attempt);
      return await this.#play(turn, ref, attempt, place);
    } finally {
      if (attempt !== undefined) this.#running.delete(attempt);
      this.#count--;
      place.leave();
    }
  }

  /** Its tool has an effect, unless an earlier attempt has recorded the call. */
  async #act(ref: ReturnType<Turn["begin"]>, attempt: string): Promise<void> {
    const calls = this.submissions.toolCalls(ref, ref.attempt > 1 ? () => [] : undefined);
    const decision = await calls.start(act());
    if (decision.action !== "run") return;
    const name = idOf(attempt);
    const before = this.sql.exec("SELECT 1 FROM effects WHERE id = ?", name).toArray();
    if (before.length > 0) this.breaches.push(`L6 the tool of ${attempt} has run before`);
    this.sql.exec("INSERT INTO effects VALUES (?)", name);
    decision.end({ output: "done" });
  }

  /** Resolves when nobody else goes on, with what lets the next one. */
  async #enter(): Promise<() => void> {
    const before = this.#taken;
    let leave = () => {};
    this.#taken = new Promise((resolve) => {
      leave = resolve;
    });
    await before;
    // The ledger takes note of what has been before, and the commit is one of its own.
    await sleep(0);
    return leave;
  }

  #begin(attempt: string, { thread }: Turn): void {
    this.#running.set(attempt, thread);
    const all = [...this.#running].map(([name, in_]) => `${name} in ${in_}`).join(", ");
    const sameThread = [...this.#running.values()].filter((other) => other === thread);
    const isAlone = thread === ISOLATED || sameThread.length === 1;
    const { maxConcurrentTurns } = this.owner.rules;
    if (!isAlone || this.#running.size > maxConcurrentTurns) this.breaches.push(all);
    const [, number] = attempt.split("#");
    this.sql.exec("INSERT INTO began VALUES (?, ?)", idOf(attempt), Number(number));
  }

  async #play(
    turn: Turn,
    ref: ReturnType<Turn["begin"]>,
    attempt: string,
    place: Place,
  ): Promise<TurnEnd> {
    const { messages, thread, signal, plan } = turn;
    const name = idOf(attempt);
    const plot = plotOf(messages);
    const failed = this.owner.failed.get(name) ?? 0;
    await sleep(0);
    let isAnswered = false;
    for (let call = 0; call <= plot.holds; call++) {
      if (call > 0) await this.#hold(attempt, place, plot.deaf ? undefined : signal);
      await this.#callModel(thread, ref);
      if (call === 0 && plot.answers && failed >= plot.fails) {
        isAnswered = this.submissions.answer(ref, { of: name });
      }
    }
    if (failed < plot.fails) {
      this.owner.failed.set(name, failed + 1);
      const error = errorOf(plot);
      throw error;
    }
    this.#say(thread, [{ id: replyId(name) }]);
    const end = { outcome: "completed", text: `said by ${name}` } as const;
    return plan ? endWithAnswer(end, { isAnswered, problem: undefined }) : end;
  }

  /** Those that join are in the conversation a little later, as in a host that asks before it writes. */
  async #callModel(thread: string, ref: ReturnType<Turn["begin"]>): Promise<void> {
    const messages = this.submissions.nextStep(ref);
    const names = new Set(messages.map(({ id }) => idOf(id)));
    for (const id of names) this.sql.exec("INSERT INTO joined VALUES (?)", id);
    if (messages.length > 0) await sleep(0);
    this.#say(thread, messages);
  }

  #say(thread: string, messages: readonly { readonly id: string }[]): void {
    if (thread === ISOLATED) return;
    for (const { id } of messages) {
      this.sql.exec(
        "INSERT OR IGNORE INTO conversation (id, text, thread) VALUES (?, '', ?)",
        id,
        thread,
      );
    }
  }

  async #hold(attempt: string, place: Place, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    try {
      await new Promise<void>((resolve, reject) => {
        this.#held.set(attempt, resolve);
        signal?.addEventListener("abort", () => reject(signal.reason));
        place.leave();
      });
    } finally {
      this.#held.delete(attempt);
    }
    await place.take();
  }
}

/** The right of one turn to go on. */
class Place {
  leave = () => {};

  constructor(private readonly enter: () => Promise<() => void>) {}

  async take(): Promise<void> {
    this.leave = await this.enter();
  }
}

export function plotOf(messages: Turn["messages"]): Plot {
  const part = messages[0]?.parts[0];
  if (part?.type !== "text") throw new Error("A turn without a plot");
  return JSON.parse(part.text) as Plot;
}

function errorOf({ failure }: Plot): Error {
  if (failure === "reset") return new Error("Durable Object reset because its code was updated.");
  const statusCode = failure === "transient" ? 503 : 401;
  return Object.assign(new Error(failure), { statusCode });
}
