/** A gate that decides as its test says, in place of `limits()`. */

import type { LanguageModel } from "ai";
import { afterEach } from "vitest";
import type { Admission, Gate } from "../../../src/submissions/gate.ts";
import { installGate } from "../../../src/submissions/install-gate.ts";
import type { StoredLimits, Submission } from "../../../src/submissions/store/rows.ts";
import type { WaitingFor } from "../../../src/submissions/types.ts";
import type { Ledger } from "../ledger.ts";
import { births, time } from "../objects/ledger-object.ts";

const gates = new Set<ScriptedGate>();

// What a test leaves would ask for ever.
afterEach(() => {
  for (const gate of gates) gate.decide = () => undefined;
  gates.clear();
});

export class ScriptedGate implements Gate {
  /** The submissions that it was asked about, in this order. */
  readonly asked: string[] = [];
  /** The numbers of those that use nothing more. */
  readonly free: number[] = [];
  /** Dollars that the next model call of a submission costs. */
  cost: number | undefined;

  /** @param decide by default every submission starts at once */
  constructor(
    public decide: (submission: Submission) => Promise<Admission> | Admission = () => undefined,
  ) {
    gates.add(this);
  }

  read(options: object): StoredLimits | undefined {
    const { concurrency, budget } = options as { concurrency?: object; budget?: { usd?: number } };
    const usd = budget?.usd;
    return { ...(concurrency && { key: "of concurrency" }), ...(usd !== undefined && { usd }) };
  }

  admit(submission: Submission): Promise<Admission> | undefined {
    this.asked.push(submission.submissionId);
    const decided = this.decide(submission);
    return decided && Promise.resolve(decided);
  }

  model(_seq: number | undefined, model: LanguageModel): LanguageModel {
    return model;
  }

  takeCost(): number | undefined {
    const { cost } = this;
    this.cost = undefined;
    return cost;
  }

  released(seq: number): void {
    this.free.push(seq);
  }
}

/** The gate of the object, also after a crash. */
export function gated(stub: Ledger, gate: Gate): void {
  births.set(stub.name ?? "", ({ submissions }) => installGate(submissions, gate));
}

/** A wait of `ms` milliseconds for a limit. */
export function full(ms: number, facts: Partial<WaitingFor> = {}): { waitingFor: WaitingFor } {
  const now = Date.now() + time.aheadMs;
  const common = { limit: "openai", key: "", why: "full", since: now } as const;
  return { waitingFor: { ...common, until: now + ms, ...facts } };
}

/** What the model of a turn throws that has to wait for long. */
export function limitWait(ms: number, facts?: Partial<WaitingFor>): Error {
  return Object.assign(new Error("The limit openai is used up"), full(ms, facts));
}
