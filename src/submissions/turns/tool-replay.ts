/**
 * The tool calls of one run of a turn: an attempt, or a recovery of one. A call that an earlier run has recorded, and that the
 * conversation does not contain, is matched by its tool and input, once and in order; any other call is new.
 */

import type { Failure } from "../../core/failures.ts";
import { stableJson } from "../../core/json.ts";
import { digest } from "../../core/text.ts";
import { ToolCallLimitError } from "../errors.ts";
import {
  type AttemptRef,
  type CallEnd,
  type SettledCall,
  type ToolCalls,
  type ToolDecision,
  TurnRefused,
} from "../host.ts";
import type { Ledger } from "../ledger.ts";
import { failureOfCall, type NewCall, type RecordedCall } from "../store/tool-calls.ts";
import { type AfterSideEffects, afterSideEffects } from "./retry.ts";

type Earlier = { readonly open: RecordedCall[]; readonly policy: AfterSideEffects };

export class ToolReplay implements ToolCalls {
  #earlier: Promise<Earlier> | undefined;
  #isFull = false;

  /**
   * @param heartbeat reports progress of the turn
   * @param settled returns the calls in the stored replies to the turn; undefined for the first run, which has no earlier calls
   */
  constructor(
    private readonly ledger: Ledger,
    private readonly ref: AttemptRef,
    private readonly heartbeat: () => void,
    private readonly settled: (() => readonly SettledCall[]) | undefined,
  ) {}

  async note(): Promise<string | undefined> {
    if (!this.settled) return undefined;
    const { open, policy } = await this.#read(this.settled);
    return open.length > 0 ? noteOf(open, policy) : undefined;
  }

  async start({ toolCallId, toolName, input }: Parameters<ToolCalls["start"]>[0]) {
    const reading = this.settled && this.#read(this.settled);
    const json = stableJson(input);
    const call = { toolCallId, toolName, input: json, inputDigest: digest(json) };
    const earlier = await reading;
    // No await while deciding, so that parallel calls cannot get the same record.
    const decision = this.#decide(call, earlier);
    if (decision.action !== "run") return decision;
    // The record must be on disk before the tool runs: the tool may reset the object.
    const { store } = this.ledger;
    await store.storage.sync();
    if (!store.isRunning(this.ref)) throw new TurnRefused();
    return decision;
  }

  #decide(call: NewCall, { open, policy }: Earlier = FIRST): ToolDecision {
    const { store } = this.ledger;
    const { seq } = this.ref;
    const count = store.toolCalls.count(this.ref);
    if (count === undefined) throw new TurnRefused();
    this.heartbeat();
    const at = open.findIndex(
      ({ toolName, inputDigest }) => toolName === call.toolName && inputDigest === call.inputDigest,
    );
    const record = open[at];
    if (!record) return this.#beginCall(call, count + 1);
    open.splice(at, 1);
    store.toolCalls.take(seq, record.ordinal, call.toolCallId);
    if (record.outcome === null && policy === "repeat") return this.#running(record.ordinal);
    const failure = failureOfCall(record);
    if (failure) return { action: "fail", error: errorOf(failure) };
    return { action: "answer", output: store.toolCalls.output(seq, record.ordinal) };
  }

  #beginCall(call: NewCall, ordinal: number): ToolDecision {
    const { store, limits } = this.ledger;
    if (ordinal > limits.maxToolCalls) {
      const error = new ToolCallLimitError(limits.maxToolCalls);
      const { submissionId } = store.get(this.ref.seq) ?? {};
      if (!this.#isFull) console.warn(`[perdure] submission ${submissionId}:`, error.message);
      this.#isFull = true;
      return { action: "fail", error };
    }
    store.beginCall(this.ref, ordinal, call, this.ledger.clock.now());
    return this.#running(ordinal);
  }

  #running(ordinal: number): ToolDecision {
    return { action: "run", end: (end) => this.#end(ordinal, end) };
  }

  /** The model gets the outcome in any case. Without a record, it sees an interrupted call after a crash. */
  #end(ordinal: number, end: CallEnd): void {
    const { seq } = this.ref;
    try {
      const { store, clock } = this.ledger;
      store.toolCalls.end(seq, ordinal, end, clock.now());
      this.heartbeat();
    } catch (error) {
      const call = `tool call ${ordinal} of submission number ${seq}`;
      console.error(`[perdure] the outcome of ${call} could not be stored:`, error);
    }
  }

  /** Read once for each run: later records are its own calls. */
  #read(settled: () => readonly SettledCall[]): Promise<Earlier> {
    this.#earlier ??= Promise.resolve().then(() => {
      const { store } = this.ledger;
      const { seq } = this.ref;
      return {
        open: store.toolCalls.missing(seq, settled()),
        policy: afterSideEffects(store.get(seq)?.retry),
      };
    });
    return this.#earlier;
  }
}

const FIRST: Earlier = { open: [], policy: "tell" };

/** Calls that a note lists; the latest ones. */
const NOTED = 50;

function noteOf(open: readonly RecordedCall[], policy: AfterSideEffects): string {
  const outlook = policy === "repeat" ? "and may be made again" : "its effect is unknown";
  const stateOf = ({ outcome }: RecordedCall) =>
    outcome === null ? `interrupted, ${outlook}` : "finished";
  const lines = open
    .slice(-NOTED)
    .map((call) => `- ${call.toolName} ${call.input}: ${stateOf(call)}`);
  if (open.length > NOTED) lines.unshift(`- ${open.length - NOTED} earlier calls`);
  return `${NOTE}\n\n${lines.join("\n")}\n\n${HOW_TO_GO_ON}`;
}

const NOTE =
  "Your turn was interrupted. These tool calls had been made, and their results are not shown here:";
const HOW_TO_GO_ON =
  "Do not make them with other arguments. To get the result of a finished call, make it with exactly the same arguments: " +
  "you get its result, and the tool does not run again.";

function errorOf({ name, message }: Failure): Error {
  return Object.assign(new Error(message), { name });
}
