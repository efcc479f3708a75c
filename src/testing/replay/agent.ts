/** The agent of a replay: it answers the calls of steps from the history, as the real one did, and executes nothing. */

import type { Json } from "../../core/json.ts";
import { partOf } from "../../core/text.ts";
import type { AskedStep } from "../../features/deploy/types.ts";
import type { WaitRef, WaitRequest } from "../../workflow/waits/protocol.ts";
import { type NoteUnknown, replayedId } from "./bindings.ts";
import type { Recorded } from "./record.ts";
import { sampleOf } from "./sample.ts";

/** What a step of Perdure asked of its agent, while the step's own code ran. */
export type Calls = {
  opened?: WaitRequest;
  /** The wait is waited for by an event of this type, which comes with this proof. */
  waits?: { readonly eventType: string; readonly proof: unknown };
  refused?: readonly string[];
  /** All waits that it asked after have ended in the history. */
  hasEnded?: true;
  /** The step looked for the place of a sub-agent, which no replay may lead to. */
  located?: true;
};

const RECEIPT_PROOF = "replayed";

type BatchWait = { readonly submissionIds?: readonly string[]; readonly failsFast?: boolean };

type BatchAsk = {
  readonly items?: readonly { readonly idempotencyKey: string }[];
  readonly refused?: readonly unknown[];
};

export class ReplayedAgent {
  /** The calls of the step that runs now. */
  calls: Calls | undefined;
  #made = 0;
  /** Requests that the history does not have, by the ids of their waits. */
  readonly #new = new Map<string, WaitRequest>();

  constructor(
    private readonly record: Recorded,
    private readonly note: NoteUnknown,
  ) {}

  /** A stub of the agent of any name: each answers from the same history. */
  readonly stub = (name: string): object => {
    const id = replayedId(name);
    return new Proxy({} as Record<string, unknown>, {
      get: (_, method) => {
        if (method === "id") return id;
        if (method === "name") return name;
        if (typeof method === "symbol" || method === "then") return undefined;
        return (...args: unknown[]) => this.#call(method, args);
      },
    });
  };

  async #call(method: string, args: readonly unknown[]): Promise<unknown> {
    if (method === "callKernel") return this.#kernel(String(args[0]), args.slice(1));
    if (method.startsWith("_")) {
      const [path, inner, given] = args;
      // The call of a sub-agent, which its root passes on.
      const isPassedOn = Array.isArray(path) && typeof inner === "string" && Array.isArray(given);
      // The SDK's own reports, whose answers nothing reads.
      return isPassedOn ? this.#call(inner, given) : undefined;
    }
    return this.note(`agent.${method}()`);
  }

  #kernel(name: string, args: readonly unknown[]): unknown {
    const calls = this.calls ?? {};
    const [first, second] = args;
    if (name === "openWait") return this.#open(first as WaitRequest, calls);
    if (name === "checkWait" || name === "closeWait") return this.#end(first as WaitRef, calls);
    if (name === "readWait") return this.#read(first as WaitRef, Number(second));
    if (name === "refuseWait") calls.refused = second as readonly string[];
    if (name === "agentPath") calls.located = true;
    return undefined;
  }

  #open(asked: WaitRequest, calls: Calls): object | null {
    calls.opened = asked;
    if (asked.kind === "batch") return this.#openBatch(asked);
    const waitId = this.#newWait(asked);
    const eventType = `perdure-${asked.kind === "prompt" ? "prompt" : "wait"}-${waitId}`;
    const end = sampleEnd(waitId, asked);
    return {
      waitId,
      eventType,
      proof: RECEIPT_PROOF,
      url: "https://replayed.example/",
      ...(end && { end }),
    };
  }

  #openBatch(asked: WaitRequest): object {
    const { items, refused = [] } = asked.request as BatchAsk;
    const submissionIds = (items ?? refused).map(() => this.#newWait(asked));
    return { submissionIds };
  }

  #newWait(asked: WaitRequest): string {
    const waitId = `new-${++this.#made}`;
    this.#new.set(waitId, asked);
    return waitId;
  }

  #end(wait: WaitRef, calls: Calls): object | null {
    const { eventType, proof } = wait as { eventType?: unknown; proof?: unknown };
    if (typeof eventType === "string") calls.waits = { eventType, proof };
    if (wait.kind === "batch") return this.#endOfBatch(wait as BatchWait, calls);
    const known = this.record.asked(wait.waitId);
    return known ? shortEnd(known) : this.#sample(wait.waitId);
  }

  /** As the agent answers: with the first failure, where one ends the batch. */
  #endOfBatch({ submissionIds = [], failsFast }: BatchWait, calls: Calls): object {
    const ends = submissionIds.map((id) => {
      const asked = this.record.asked(id);
      return asked && shortEnd(asked);
    });
    if (ends.every((end) => end)) calls.hasEnded = true;
    const index = ends.findIndex((end) => end && Reflect.get(end, "status") !== "completed");
    return failsFast && index >= 0 ? { failure: { index, end: ends[index] } } : {};
  }

  #read(wait: WaitRef, part: number): object | null {
    const { submissionIds } = wait as { submissionIds?: readonly string[] };
    if (submissionIds) {
      const ends = submissionIds.map((id) => {
        const known = this.record.asked(id);
        return known ? shortEnd(known) : this.#sample(id);
      });
      return { ends: ends.filter((end) => end !== null), count: submissionIds.length };
    }
    const value = valueIn(this.record.asked(wait.waitId));
    return value === undefined ? null : (partOf(JSON.stringify(value), part) ?? null);
  }

  /** An end for a wait whose own end is not in the history. */
  sampleOf(waitId: string, asked: WaitRequest | undefined): object | null {
    return asked ? sampleEnd(waitId, asked) : null;
  }

  #sample(waitId: string): object | null {
    return this.sampleOf(waitId, this.#new.get(waitId));
  }
}

type End = Readonly<Record<string, Json>>;

/** The value that is read in parts where it is large: the result of a wait, or the answer of a prompt. */
function valueIn(asked: AskedStep | undefined): Json | undefined {
  const { result, output } = Object(asked?.end) as { result?: Json; output?: Json };
  return result ?? output;
}

/** The end as an event or the result of a step can hold it. Null while it is open, or where the history does not have it. */
export function shortEnd(asked: AskedStep): object | null {
  const { end } = asked;
  if (typeof end !== "object" || end === null) return null;
  const text = JSON.stringify(valueIn(asked) ?? null);
  if (partOf(text, 1) === undefined) return end;
  const { result: _, output: __, ...rest } = end as End;
  return { ...rest, reference: { bytes: text.length } };
}

/** How a new step could end, so that the code behind it is looked at as well. */
function sampleEnd(waitId: string, { kind, request }: WaitRequest): object {
  const { answer, schema } = request as { answer?: { schema?: object }; schema?: object | null };
  const wanted = answer ? answer.schema : schema;
  const value = wanted ? sampleOf(wanted) : null;
  if (kind === "prompt" || kind === "batch") {
    const output = wanted ? value : "text";
    return { submissionId: waitId, status: "completed", output, attempts: 1 };
  }
  const end = { waitId, status: "completed", settledAt: 0 };
  if (kind === "approval") return { ...end, result: wanted ? { payload: value } : {} };
  if (kind === "webhook") {
    const arrival = { id: waitId, source: "replayed", type: "replayed", receivedAt: 0 };
    return { ...end, result: { ...arrival, body: value, headers: {} } };
  }
  const run = { status: "completed", runId: waitId, executionId: waitId };
  return { ...end, result: { ...run, output: null, summary: "", milestones: [] } };
}
