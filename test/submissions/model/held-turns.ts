/**
 * The turns of an object instance. Each does what it is planned to do. Several can be held at a time, but only one at a
 * time goes on, in the order in which they were started. So the outcome does not depend on timing.
 */

import { endWithAnswer, type Turn, type TurnEnd } from "../../../src/submissions/host.ts";
import type { Submissions } from "../../../src/submissions/submissions.ts";
import { sleep } from "../../support/ledger.ts";
import { act } from "../../support/objects/ledger-object.ts";
import { idOf, type PlannedTurn, replyId } from "./entries.ts";

const ISOLATED = "isolated";

type Settings = {
  readonly maxConcurrentTurns: number;
  /** How often the turn of a submission has failed, which no crash undoes. */
  readonly failed: Map<string, number>;
  /** Whether the app's status hook runs for a submission. */
  readonly isInHook: (name: string) => boolean;
  /** The model's id of a submission. */
  readonly nameOf: (submissionId: string) => string;
};

export class HeldTurns {
  /** Turns that ran at the same time, and tools that ran twice, and must not have (L4, L6). */
  readonly breaches: string[] = [];
  /** The attempts whose turns are held, each with what releases it. */
  readonly #held = new Map<string, () => void>();
  /** How many turns the ledger has started that have not ended. */
  #count = 0;
  /** The attempts that have begun and not ended, and their threads. */
  readonly #running = new Map<string, string>();
  /** Resolves when no other turn goes on. */
  #taken: Promise<void> = Promise.resolve();

  constructor(
    private readonly submissions: Submissions,
    private readonly sql: SqlStorage,
    private readonly settings: Settings,
  ) {}

  /** How many turns run and are not held. */
  get playing(): number {
    return this.#count - this.#held.size;
  }

  /** The attempts whose turns are held, the longest held first. */
  get held(): string[] {
    return [...this.#held.keys()];
  }

  /** The nth held turn goes on. */
  release(nth: number): void {
    [...this.#held.values()][nth % Math.max(1, this.#held.size)]?.();
  }

  async run(turn: Turn): Promise<TurnEnd> {
    const name = this.settings.nameOf(turn.submissionId);
    const turnstile = new Turnstile(() => this.#enter());
    this.#count++;
    await turnstile.take();
    let attempt: string | undefined;
    try {
      const ref = turn.begin();
      attempt = `${name}#${ref.attempt}`;
      this.#begin(attempt, turn);
      await turn.announced();
      this.#say(turn.thread, turn.messages);
      if (!turn.signal.aborted && this.settings.isInHook(name)) {
        this.breaches.push(`${attempt} calls the model while its hook runs`);
      }
      if (plannedTurnOf(turn.messages).effects) await this.#callTool(ref, attempt);
      return await this.#play(turn, ref, attempt, turnstile);
    } finally {
      if (attempt !== undefined) this.#running.delete(attempt);
      this.#count--;
      turnstile.leave();
    }
  }

  /** Its tool has an effect, unless an earlier attempt has recorded the call. */
  async #callTool(ref: ReturnType<Turn["begin"]>, attempt: string): Promise<void> {
    const calls = this.submissions.turns.toolCalls(ref, ref.attempt > 1 ? () => [] : undefined);
    const decision = await calls.start(act());
    if (decision.action !== "run") return;
    const name = idOf(attempt);
    const before = this.sql.exec("SELECT 1 FROM effects WHERE id = ?", name).toArray();
    if (before.length > 0) this.breaches.push(`L6 the tool of ${attempt} has run before`);
    this.sql.exec("INSERT INTO effects VALUES (?)", name);
    decision.end({ output: "done" });
  }

  /** Resolves when no other turn goes on, with what lets the next one go on. */
  async #enter(): Promise<() => void> {
    const before = this.#taken;
    let leave = () => {};
    this.#taken = new Promise((resolve) => {
      leave = resolve;
    });
    await before;
    // What the turn before has written is a commit of its own.
    await sleep(0);
    return leave;
  }

  #begin(attempt: string, { thread }: Turn): void {
    this.#running.set(attempt, thread);
    const all = [...this.#running].map(([name, in_]) => `${name} in ${in_}`).join(", ");
    const sameThread = [...this.#running.values()].filter((other) => other === thread);
    const isAlone = thread === ISOLATED || sameThread.length === 1;
    const { maxConcurrentTurns } = this.settings;
    if (!isAlone || this.#running.size > maxConcurrentTurns) this.breaches.push(all);
    const [, number] = attempt.split("#");
    this.sql.exec("INSERT INTO began VALUES (?, ?)", idOf(attempt), Number(number));
  }

  async #play(
    turn: Turn,
    ref: ReturnType<Turn["begin"]>,
    attempt: string,
    turnstile: Turnstile,
  ): Promise<TurnEnd> {
    const { messages, thread, signal, plan } = turn;
    const name = idOf(attempt);
    const planned = plannedTurnOf(messages);
    const failed = this.settings.failed.get(name) ?? 0;
    await sleep(0);
    let isAnswered = false;
    for (let call = 0; call <= planned.holds; call++) {
      if (call > 0) await this.#hold(attempt, turnstile, planned.ignoresAbort ? undefined : signal);
      await this.#callModel(thread, ref);
      if (call === 0 && planned.answers && failed >= planned.fails) {
        isAnswered = this.submissions.turns.answer(ref, { of: name });
      }
    }
    if (failed < planned.fails) {
      this.settings.failed.set(name, failed + 1);
      throw errorOf(planned);
    }
    this.#say(thread, [{ id: replyId(name) }]);
    const end = { outcome: "completed", text: `said by ${name}` } as const;
    return plan ? endWithAnswer(end, { isAnswered, problem: undefined }) : end;
  }

  /** Messages that join are stored a little later, as in a host that awaits something before it writes. */
  async #callModel(thread: string, ref: ReturnType<Turn["begin"]>): Promise<void> {
    const messages = this.submissions.turns.nextStep(ref);
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

  async #hold(
    attempt: string,
    turnstile: Turnstile,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    signal?.throwIfAborted();
    try {
      await new Promise<void>((resolve, reject) => {
        this.#held.set(attempt, resolve);
        signal?.addEventListener("abort", () => reject(signal.reason));
        turnstile.leave();
      });
    } finally {
      this.#held.delete(attempt);
    }
    await turnstile.take();
  }
}

/** The right of one turn to go on. */
class Turnstile {
  leave = () => {};

  constructor(private readonly enter: () => Promise<() => void>) {}

  async take(): Promise<void> {
    this.leave = await this.enter();
  }
}

export function plannedTurnOf(messages: Turn["messages"]): PlannedTurn {
  const part = messages[0]?.parts[0];
  if (part?.type !== "text") throw new Error("A turn without a plan");
  return JSON.parse(part.text) as PlannedTurn;
}

function errorOf({ failure }: PlannedTurn): Error {
  if (failure === "reset") return new Error("Durable Object reset because its code was updated.");
  const statusCode = failure === "transient" ? 503 : 401;
  return Object.assign(new Error(failure), { statusCode });
}
