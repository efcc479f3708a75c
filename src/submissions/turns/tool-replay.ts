/**
 * The tool calls of one run of a turn: an attempt, or a recovery of one. A call that an earlier run has recorded, and that the
 * conversation does not contain, is matched by its tool and input, once and in order; any other call is new.
 */

import type { Clock } from "../../core/clock.ts";
import type { Failure } from "../../core/failures.ts";
import { stableJson } from "../../core/json.ts";
import { digest } from "../../core/text.ts";
import { MAX_TOOL_STEPS, ToolCallLimitError, ToolStepLimitError } from "../errors.ts";
import { type CallSteps, type ToolCalls, type ToolDecision, TurnRefused } from "../host.ts";
import type { AttemptRef } from "../states.ts";
import type { SubmissionStore } from "../store/store.ts";
import {
  type CallEnd,
  failureOfCall,
  type NewCall,
  type RecordedCall,
  type SettledCall,
} from "../store/tool-calls.ts";
import { type AfterSideEffects, afterSideEffects } from "./next-attempt.ts";

type AskedCall = Omit<NewCall, "callKey"> & { readonly isDurable: boolean };
type Earlier = {
  readonly open: RecordedCall[];
  readonly ids: ReadonlySet<string>;
  readonly policy: AfterSideEffects;
};

export class ToolReplay implements ToolCalls {
  #earlier: Promise<Earlier> | undefined;
  #isFull = false;

  /**
   * @param runningSteps steps of durable tools that run now in this object, by their idempotency keys
   * @param heartbeat reports progress of the turn
   * @param settled returns the calls in the stored replies to the turn; undefined for the first run, which has no earlier calls
   */
  constructor(
    private readonly store: SubmissionStore,
    private readonly clock: Clock,
    private readonly limits: { readonly maxToolCalls: number },
    private readonly runningSteps: Map<string, Promise<unknown>>,
    private readonly ref: AttemptRef,
    private readonly heartbeat: () => void,
    private readonly settled: (() => readonly SettledCall[]) | undefined,
  ) {}

  async note(): Promise<string | undefined> {
    if (!this.settled) return undefined;
    const { open, policy } = await this.#read(this.settled);
    return open.length > 0 ? noteOf(open, policy) : undefined;
  }

  async recordedIds(): Promise<ReadonlySet<string>> {
    return this.settled ? (await this.#read(this.settled)).ids : FIRST.ids;
  }

  async start({ toolCallId, toolName, input, isDurable }: Parameters<ToolCalls["start"]>[0]) {
    const reading = this.settled && this.#read(this.settled);
    const json = stableJson(input);
    const inputDigest = digest(json);
    const call = { toolCallId, toolName, input: json, inputDigest, isDurable: isDurable === true };
    const earlier = await reading;
    // No await while deciding, so that parallel calls cannot get the same record.
    const decision = this.#decide(call, earlier);
    if (decision.action !== "run") return decision;
    // The record must be on disk before the tool runs: the tool may reset the object.
    const { store } = this;
    await store.storage.sync();
    if (!store.isRunning(this.ref)) throw new TurnRefused();
    return decision;
  }

  #decide(call: AskedCall, { open, policy }: Earlier = FIRST): ToolDecision {
    const { store } = this;
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
    const isRepeated = policy === "repeat" || (call.isDurable && record.callKey !== null);
    if (record.outcome === null && isRepeated) return this.#running(record);
    const failure = failureOfCall(record);
    if (failure) return { action: "fail", error: errorOf(failure) };
    return { action: "answer", output: store.toolCalls.output(seq, record.ordinal) };
  }

  #beginCall({ isDurable, ...call }: AskedCall, ordinal: number): ToolDecision {
    const { store, limits } = this;
    if (ordinal > limits.maxToolCalls) {
      const error = new ToolCallLimitError(limits.maxToolCalls);
      const { submissionId } = store.get(this.ref.seq) ?? {};
      if (!this.#isFull) console.warn(`[perdure] submission ${submissionId}:`, error.message);
      this.#isFull = true;
      return { action: "fail", error };
    }
    // Other agents have submissions of the same id, and an id may be used again: only the record makes the key stable.
    const callKey = isDurable ? crypto.randomUUID() : null;
    store.beginCall(this.ref, ordinal, { ...call, callKey }, this.clock.now());
    return this.#running({ ordinal, callKey });
  }

  #running({ ordinal, callKey }: Pick<RecordedCall, "ordinal" | "callKey">): ToolDecision {
    if (callKey === null) return { action: "run", end: (end) => this.#end(ordinal, end) };
    const end = (end: CallEnd) => {
      // After that its steps were refused: such an end says nothing, and the call can run again.
      if (this.store.isRunning(this.ref)) this.#end(ordinal, end);
    };
    return { action: "run", end, steps: this.#steps(ordinal, callKey) };
  }

  #steps(ordinal: number, idempotencyKey: string): CallSteps {
    const { store, runningSteps } = this;
    const { seq } = this.ref;
    let count = store.toolCalls.steps(seq, ordinal);
    const find = (name: string) => {
      if (!store.isRunning(this.ref)) throw new TurnRefused();
      this.heartbeat();
      const found = store.toolCalls.step(seq, ordinal, name);
      // Counted before they run: steps that run at the same time have no rows yet.
      if (!found && ++count > MAX_TOOL_STEPS) throw new ToolStepLimitError();
      return found;
    };
    const recorded = async (name: string, work: () => Promise<string | null>) => {
      const json = await work();
      if (store.isRunning(this.ref)) store.toolCalls.addStep(seq, ordinal, name, json);
      else store.toolCalls.addLateStep(seq, idempotencyKey, name, json);
      this.heartbeat();
      // The next step may reset the object.
      await store.storage.sync();
      return json;
    };
    return {
      idempotencyKey,
      run: async (name, work) => {
        const key = `${idempotencyKey}/${name}`;
        // An attempt that was cancelled or given up does not stop its step. Another one beside it would repeat the effect.
        await runningSteps.get(key)?.catch(() => {});
        const found = find(name);
        if (found) return found.json;
        const running = recorded(name, work).finally(() => runningSteps.delete(key));
        runningSteps.set(key, running);
        return running;
      },
    };
  }

  /** The model gets the outcome in any case. Without a record, it sees an interrupted call after a crash. */
  #end(ordinal: number, end: CallEnd): void {
    const { seq } = this.ref;
    try {
      const { store, clock } = this;
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
      const { store } = this;
      const { seq } = this.ref;
      return {
        open: store.toolCalls.missing(seq, settled()),
        ids: store.toolCalls.ids(seq),
        policy: afterSideEffects(store.get(seq)?.retry),
      };
    });
    return this.#earlier;
  }
}

const FIRST: Earlier = { open: [], ids: new Set(), policy: "tell" };

/** Calls that a note lists; the latest ones. */
const NOTED = 50;

function noteOf(open: readonly RecordedCall[], policy: AfterSideEffects): string {
  const outlook = policy === "repeat" ? REPEATABLE : "its effect is unknown";
  const stateOf = ({ outcome, callKey }: RecordedCall) => {
    if (outcome !== null) return "finished";
    return `interrupted, ${callKey === null ? outlook : REPEATABLE}`;
  };
  const lines = open
    .slice(-NOTED)
    .map((call) => `- ${call.toolName} ${call.input}: ${stateOf(call)}`);
  if (open.length > NOTED) lines.unshift(`- ${open.length - NOTED} earlier calls`);
  return `${NOTE}\n\n${lines.join("\n")}\n\n${HOW_TO_GO_ON}`;
}

const REPEATABLE = "and may be made again";
const NOTE =
  "Your turn was interrupted. These tool calls had been made, and their results are not shown here:";
const HOW_TO_GO_ON =
  "Do not make them with other arguments. To get the result of a finished call, make it with exactly the same arguments: " +
  "you get its result, and the tool does not run again.";

function errorOf({ name, message }: Failure): Error {
  return Object.assign(new Error(message), { name });
}
