/** Decides which turns start now, and keeps what each of them uses while it runs. */

import type { LanguageModel } from "ai";
import type { Clock } from "../../core/clock.ts";
import type { Admission, Gate, GivenLimits } from "../../submissions/gate.ts";
import type { StoredLimits, Submission } from "../../submissions/store/rows.ts";
import { MAIN, publicThreadOf } from "../../submissions/threads.ts";
import type { WaitedFor } from "../../submissions/types.ts";
import type { Tokens } from "./calls/estimates.ts";
import { ModelCalls } from "./calls/model.ts";
import type { Capacity, Held, Need, WorkLimit } from "./capacity.ts";
import type { LimitSubject, LimitsSettings } from "./declared/declarations.ts";
import { mostCostOf } from "./declared/prices.ts";
import { ruleOf } from "./declared/rates.ts";
import { NANODOLLARS } from "./errors.ts";
import type { Amounts } from "./keeper/protocol.ts";
import { type OwnLimits, readOwnLimits } from "./options.ts";
import { sleep } from "./sleep.ts";
import {
  admissionOf,
  amountsFor,
  clamped,
  type DeniedNeed,
  ownLimitOf,
  verdictOf,
  type Work,
  workLimitOf,
} from "./work.ts";

/** A shorter wait is waited for in memory: it costs no row. */
const SHORT_MS = 1_000;
/** Of the first prompt of this object, as a guess. */
const FIRST_INPUT = 2_000;

/** A submission as far as the gate is concerned. */
export type Waiting = Pick<
  Submission,
  | "seq"
  | "submissionId"
  | "thread"
  | "rank"
  | "attempts"
  | "metadata"
  | "createdAt"
  | "usage"
  | "limits"
  | "waitingFor"
  | "answer"
>;

export type GateUses = {
  readonly settings: LimitsSettings;
  readonly capacity: Capacity;
  readonly clock: Clock;
  readonly agentId: string;
  readonly subject: Pick<LimitSubject, "agent" | "className">;
  /** Of a turn that an earlier instance of the object has started. */
  readonly load: (seq: number) => Waiting | undefined;
  /** A newer submission has replaced one that runs. */
  readonly onReplaced: (seq: number, key: string) => void;
  /** A turn waits in a model call: it has not stalled. */
  readonly heartbeat: (seq: number) => void;
  /** What model calls in flight of a turn with a budget may cost, in dollars. */
  readonly onReserved: (seq: number, dollars: number) => void;
  /** A model call of a turn waits in memory until then; undefined: no longer. */
  readonly onWaiting: (seq: number, until: number | undefined) => void;
  /** A model call of a turn is sent after a wait in memory. */
  readonly onWaited: (seq: number, waited: WaitedFor) => void;
};

export class LimitGate implements Gate {
  readonly #works = new Map<number, Work>();
  readonly #limits: readonly WorkLimit[];
  readonly #calls: ModelCalls;
  /** The key of this limit shares the limits without keys. */
  readonly #sharing: WorkLimit | undefined;
  /** What the last model call of this object was. */
  #last: { readonly model: string; readonly tokens: Tokens } | undefined;
  /** Clients' turns that call a model now. */
  readonly #clients = new Set<Work>();
  /** Steps of clients' turns since the start. */
  clientSteps = 0;

  constructor(private readonly uses: GateUses) {
    const { settings, capacity, clock, heartbeat, onWaiting, onWaited } = uses;
    const all = settings.limits.map(workLimitOf);
    this.#sharing = all.find(({ declared }) => declared?.weightOf);
    // One without amounts has keys that share the others, and no keeper.
    this.#limits = all.filter(({ rules }) => Object.keys(rules).length > 0);
    this.#calls = new ModelCalls({
      ...{ settings, capacity, clock, heartbeat, onWaiting, onWaited },
      needsOf: (work, model, amounts) => this.#needsOf(work, model, amounts),
      limitsOf: (work, model) => this.#limitsOf(work, model),
      onCalled: (model, tokens) => {
        this.#last = { model, tokens };
      },
      onCalls: (work) => {
        if (work.seq === undefined && work.calls.size > 0) this.#clients.add(work);
        else this.#clients.delete(work);
        this.#whenIdle();
        const { seq, budget, reserved } = work;
        if (seq !== undefined && budget !== undefined && !work.isOver)
          uses.onReserved(seq, reserved / NANODOLLARS);
      },
    });
  }

  read(options: GivenLimits): StoredLimits | undefined {
    return readOwnLimits(options);
  }

  admit(submission: Waiting): Promise<Admission> | undefined {
    const work = this.#pending(submission);
    let missing: readonly Need[];
    try {
      missing = this.#admissionNeeds(work, submission).filter((need) => !this.#hold(work, need));
    } catch (error) {
      return Promise.resolve(admissionOf({ error: error as Error, status: "error" }));
    }
    if (missing.length > 0) return this.#obtain(work, missing);
    this.#admitted(work);
    return undefined;
  }

  #pending(submission: Waiting): Work {
    const { seq, metadata = {} } = submission;
    const known = this.#works.get(seq);
    // A debounced repetition may have replaced it.
    const isSame = JSON.stringify(known?.subject.metadata) === JSON.stringify(metadata);
    if (known && isSame) return known;
    const work = this.#workOf(submission);
    if (known) {
      work.since = known.since;
      this.released(seq);
    }
    this.#works.set(seq, work);
    return work;
  }

  /** Whether it is reserved already, or can be without a call. */
  #hold(work: Work, need: Need): boolean {
    const { capacity, clock } = this.uses;
    const { name } = need.limit;
    const before = work.held.get(name);
    if (before && capacity.endOf(before) > clock.now()) return true;
    if (before) this.#end(work, before, {});
    const held = capacity.take(need);
    if (held) work.held.set(name, held);
    return held !== undefined;
  }

  /** The start of a turn counts, whatever becomes of it. */
  #admitted(work: Work): void {
    work.waits = [];
    for (const held of work.held.values()) {
      const { shown, declared } = held.need.limit;
      if (!declared && shown === "rate") this.#end(work, held, { requests: 1 });
    }
  }

  #end(work: Work, held: Held, used: Amounts): void {
    work.held.delete(held.need.limit.name);
    this.uses.capacity.settle(held, used);
  }

  async #obtain(work: Work, needs: readonly Need[]): Promise<Admission> {
    const { capacity, clock } = this.uses;
    const asked = needs.map(async (need): Promise<DeniedNeed | undefined> => {
      const answer = await capacity.obtain(need);
      if ("outcome" in answer) return { need, denied: answer };
      // It was cancelled meanwhile.
      if (work.isOver) capacity.settle(answer, {});
      else work.held.set(need.limit.name, answer);
      return undefined;
    });
    const denials = (await Promise.all(asked)).filter((denied) => denied !== undefined);
    if (work.isOver) {
      this.#whenIdle();
      return undefined;
    }
    if (denials.length === 0) {
      const starts = Array.from(work.held.values(), (held) => capacity.startOf(held));
      await sleep(Math.max(...starts) - clock.now());
      return undefined;
    }
    work.since ??= clock.now();
    const verdict = verdictOf(work, denials, clock.now());
    if ("waitingFor" in verdict && verdict.waitMs <= SHORT_MS) {
      await sleep(verdict.waitMs);
      return undefined;
    }
    // What ends before the next try is free for others.
    const until = "waitingFor" in verdict ? verdict.waitingFor.until : Number.POSITIVE_INFINITY;
    for (const held of work.held.values())
      if (capacity.endOf(held) <= until) this.#end(work, held, {});
    return admissionOf(verdict);
  }

  released(seq: number): void {
    const work = this.#works.get(seq);
    if (!work) return;
    work.isOver = true;
    this.#works.delete(seq);
    for (const abandon of [...work.calls]) abandon();
    for (const held of work.held.values()) this.#end(work, held, {});
    for (const need of work.waits) this.uses.capacity.withdraw(need);
    this.#whenIdle();
  }

  #whenIdle(): void {
    if (this.#works.size + this.#clients.size === 0) this.uses.capacity.idle();
  }

  model(seq: number | undefined, model: LanguageModel): LanguageModel {
    return this.#calls.wrap(this.#running(seq), model);
  }

  /** The work of a turn that runs. A client's turn has one for each step. */
  #running(seq: number | undefined): Work {
    const known = seq === undefined ? undefined : this.#works.get(seq);
    if (known) return known;
    const submission = seq === undefined ? undefined : this.uses.load(seq);
    if (!submission) return this.#clientWork();
    const work = this.#workOf(submission);
    this.#works.set(submission.seq, work);
    this.#reclaim(work, submission);
    return work;
  }

  /** An earlier instance of the object has begun the turn: it goes on, also where all slots are taken. */
  #reclaim(work: Work, submission: Waiting): void {
    const need = this.#ownNeeds(work, submission).find(({ limit }) => limit.rules.slots);
    if (!need) return;
    const asked = this.uses.capacity.obtain({ ...need, isRenewal: true }).then((answer) => {
      if ("outcome" in answer) {
        if (answer.outcome === "refused") need.onReplaced?.();
      } else if (work.isOver) this.uses.capacity.settle(answer, {});
      else work.held.set(need.limit.name, answer);
    });
    asked.catch((error) => console.error("[perdure] A slot could not be taken again:", error));
  }

  takeCost(seq: number): number | undefined {
    const work = this.#works.get(seq);
    if (work?.cost === undefined) return undefined;
    const dollars = work.cost / NANODOLLARS;
    work.cost = undefined;
    return dollars;
  }

  #workOf(submission: Waiting): Work {
    const { seq, submissionId, thread, rank, metadata, createdAt, usage, limits } = submission;
    const { usd } = (limits ?? {}) as OwnLimits;
    return {
      ...newWork({
        ...this.uses.subject,
        thread: publicThreadOf(thread),
        metadata: metadata ?? {},
      }),
      seq,
      ticket: `${this.uses.agentId}/${submissionId}`,
      priority: Math.max(-100, Math.min(100, -rank)),
      acceptedAt: createdAt,
      budget: usd === undefined ? undefined : Math.floor(usd * NANODOLLARS),
      spent: Math.ceil((usage?.cost ?? 0) * NANODOLLARS),
      since: submission.waitingFor?.since,
    };
  }

  #clientWork(): Work {
    this.clientSteps++;
    return {
      ...newWork({ ...this.uses.subject, thread: MAIN, metadata: {} }),
      seq: undefined,
      ticket: `${this.uses.agentId}/client/${crypto.randomUUID()}`,
      acceptedAt: this.uses.clock.now(),
    };
  }

  /** The limits that concern a model; undefined for one that is not known. */
  #limitsOf(work: Work, model: string | undefined): readonly WorkLimit[] {
    return this.#limits.filter((limit) => {
      const { declared } = limit;
      const isOfModel = model === undefined || declared?.matches(model);
      return isOfModel && this.#keyOf(work, limit) !== undefined;
    });
  }

  /** @throws InvalidLimitKeyError */
  #keyOf({ keys, subject }: Work, limit: WorkLimit): string | undefined {
    if (!keys.has(limit)) {
      const { keyOf } = limit.declared ?? {};
      keys.set(limit, keyOf ? keyOf(subject) : "");
    }
    return keys.get(limit);
  }

  #needsOf(work: Work, model: string | undefined, amounts: Amounts): Need[] {
    return this.#limitsOf(work, model).map((limit) => {
      const need = amountsFor(limit.rules, amounts);
      return this.#need(work, limit, this.#keyOf(work, limit) ?? "", need);
    });
  }

  #need(work: Work, limit: WorkLimit, key: string, amounts: Amounts): Need {
    const { ticket, hasBegun, priority, since } = work;
    const waitedMs = since === undefined ? 0 : Math.max(0, this.uses.clock.now() - since);
    const share = limit.declared && !limit.declared.keyOf ? this.#shareOf(work) : undefined;
    return { limit, key, amounts, ticket, hasBegun, priority, waitedMs, ...(share && { share }) };
  }

  #shareOf(work: Work): Need["share"] {
    const key = this.#sharing && this.#keyOf(work, this.#sharing);
    if (key === undefined) return undefined;
    return { key, weight: this.#sharing?.declared?.weightOf?.(key) ?? 1 };
  }

  #admissionNeeds(work: Work, submission: Waiting): Need[] {
    const { settings } = this.uses;
    const model = submission.answer?.models?.[0] ?? this.#last?.model;
    const first = { input: FIRST_INPUT, output: settings.maxOutputTokens };
    const tokens = this.#last?.tokens ?? first;
    const cost = model === undefined ? undefined : mostCostOf(settings.prices, model, tokens);
    // Of a model that is not known, any money that is left will do.
    const guess = {
      requests: 1,
      tokens: tokens.input + tokens.output,
      nanodollars: cost || 1,
      slots: 1,
    };
    const ofModels = this.#needsOf(work, model, guess).filter(({ limit, waitedMs }) => {
      if (!limit.declared?.isOfModels) return true;
      // Which model the turn calls is a guess: what ends the turn is decided at its call.
      const isKnown = model !== undefined || submission.waitingFor?.limit === limit.name;
      if (!isKnown) work.isUnasked = true;
      return isKnown && limit.atEnd === "wait" && waitedMs < limit.timeoutMs;
    });
    return [
      ...this.#ownNeeds(work, submission),
      ...ofModels.map((need) => ({ ...need, amounts: clamped(need.limit.rules, need.amounts) })),
    ];
  }

  #ownNeeds(work: Work, { seq, attempts, limits }: Waiting): Need[] {
    if (!limits) return [];
    const { concurrency, rate, singleton } = limits as OwnLimits;
    const needs: Need[] = [];
    if (concurrency && seq !== undefined) {
      const { key, limit: slots } = concurrency;
      const need = this.#need(work, ownLimitOf("concurrency", key, { slots }), key, { slots: 1 });
      const ageMs = Math.max(0, this.uses.clock.now() - work.acceptedAt);
      const onReplaced = () => this.uses.onReplaced(seq, key);
      needs.push({ ...need, ageMs, onReplaced, ...(singleton && { singleton }) });
    }
    // Attempts that follow the first are no starts.
    if (rate && attempts === 0) {
      const limit = ownLimitOf("rate", rate.key, { requests: ruleOf(rate.limit) });
      needs.push(this.#need(work, limit, rate.key, { requests: 1 }));
    }
    return needs;
  }
}

function newWork(subject: LimitSubject) {
  return {
    ...{ subject, priority: 0, budget: undefined, spent: 0, cost: undefined, reserved: 0 },
    ...{ since: undefined, waits: [], hasBegun: false, isUnasked: false, isOver: false },
    keys: new Map<WorkLimit, string | undefined>(),
    held: new Map<string, Held>(),
    calls: new Set<() => void>(),
  };
}
