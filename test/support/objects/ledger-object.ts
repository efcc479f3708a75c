/**
 * The ledger and the outbox on a plain Durable Object. Its turns do what their message says. It needs no model and no Think,
 * so it loads fast, and shows that the modules need neither.
 */

import type { UIMessage } from "ai";
import {
  type Delivery,
  Outbox,
  type OutboxSettings,
  type ReferencedDelivery,
  UndeliverableError,
  type WorkflowDestination,
} from "../../../src/outbox/index.ts";
import {
  type ConversationState,
  endWithAnswer,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../../src/submissions/host.ts";
import type { Limits, SubmissionsOptions } from "../../../src/submissions/options.ts";
import type { AttemptRef } from "../../../src/submissions/states.ts";
import { Submissions } from "../../../src/submissions/submissions.ts";
import type { SubmitMessagesOptions } from "../../../src/submissions/submit-options.ts";
import { isIsolated, MAIN } from "../../../src/submissions/threads.ts";
import type { SubmissionInspection } from "../../../src/submissions/types.ts";
import type { Script } from "../../../src/testing/index.ts";
import type {
  BatchRef,
  BatchRepairs,
  BatchRequest,
} from "../../../src/workflow/waits/kinds/batch.ts";
import { BatchKind } from "../../../src/workflow/waits/kinds/batch.ts";
import { PromptKind } from "../../../src/workflow/waits/kinds/prompt.ts";
import { kindsWith } from "../kinds.ts";
import { type AskedPrompt, asWait } from "../prompts.ts";
import { MeteredObject } from "./metered-object.ts";
import { WakeCapability } from "./wake-capability.ts";

/** A batch of prompts of a run of a workflow. */
type AskedBatch = Pick<AskedPrompt, "run" | "workflow"> & { readonly batch: string };
/** A prompt whose answer the workflow refuses. */
type PromptRepair = Omit<AskedBatch, "batch"> & { submissionId: string; problem: string };
const NO_PROMPT = { idempotencyKey: "", messages: [], answer: {} } as const;

/** What left the outboxes, by the workflow instance it was for, and how often it is to be refused. */
export const delivered = new Map<string, { id: string; payload: unknown }[]>();
/** A call of a tool by a turn: the same one for the same step. */
export function act(step = 0) {
  return { toolCallId: crypto.randomUUID(), toolName: "act", input: { step } };
}

/** How often the hook of dead letters was called, by the id of the letter. */
export const notified = new Map<string, number>();
/** What the outbox of the object with that name is constructed with. */
export const outboxSettings = new Map<string, OutboxSettings>();
export const refusals = new Map<string, { times: number; isGone?: boolean }>();
/** Instances of workflows that were terminated where their agents did not see it. */
export const gone = new Set<string>();
/** Runs before a delivery to that workflow instance; what it throws is the delivery's failure. */
export const couriers = new Map<string, (sent: Sent) => Promise<void>>();
type Sent = Delivery | ReferencedDelivery;
/** Called at each construction of the object with that name, before its start. */
export const births = new Map<string, (object: LedgerObject, ctx: DurableObjectState) => void>();
/** The random number of the backoff, the same in every run. 0 makes every retry due at once. */
export const chance = { random: half };
/** How far the objects' clock is ahead of the machine's, in milliseconds. */
export const time = { aheadMs: 0 };
/** The same for the object with that name alone, on top of it. */
export const aheadOf = new Map<string, number>();
const clockOf = (name: string) => ({
  now: () => Date.now() + time.aheadMs + (aheadOf.get(name) ?? 0),
  random: () => chance.random(),
});
/** Time and chance are again what they are for a test that says nothing of them. */
export function resetClock(): void {
  time.aheadMs = 0;
  chance.random = half;
}
function half(): number {
  return 0.5;
}
/** Options of the ledger, and limits that are no options. */
export type TestOptions = SubmissionsOptions &
  Partial<Pick<Limits, "holdAnswerMs" | "hookTimeoutMs">>;
/** By the object's name. */
export const ledgerOptions = new Map<string, TestOptions>();

/** What a turn of the light host does, on top of what a model does. */
export type TurnScript = Script & {
  /** Calls of the model, each of `delayMs`. */
  calls?: number;
  /** Tokens of each call. */
  tokens?: number;
  /** A tool runs in each call. */
  acts?: boolean;
  /** Each attempt stops after its only call, or after each but the last, until the test releases it. */
  isHeld?: boolean;
  /** It goes on after its signal has aborted. */
  isDeaf?: boolean;
};

class ScriptedTurns implements TurnHost {
  readonly statuses: string[] = [];
  /** Ends the pause of an attempt, by the id of its submission. */
  readonly held = new Map<string, () => void>();

  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly ledger: () => Submissions,
  ) {}

  start(): void {
    this.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS conversation (id TEXT PRIMARY KEY, text TEXT, thread TEXT)",
    );
  }

  async run(turn: Turn): Promise<TurnEnd> {
    const { signal, submissionId, thread } = turn;
    const ref = turn.begin();
    await turn.announced();
    const { messages, plan } = turn;
    for (const { id, parts } of messages) this.say(thread, id, JSON.stringify(parts));
    const script = scriptOf(messages);
    const { calls = 1 } = script;
    for (let call = 0; call < calls; call++) {
      for (const joined of this.ledger().turns.nextStep(ref)) {
        this.say(thread, joined.id, JSON.stringify(joined.parts));
      }
      const heard = script.isDeaf ? undefined : signal;
      await pause(script.delayMs ?? 0, heard);
      if (script.tokens) this.ledger().turns.recordUsage(ref, { totalTokens: script.tokens });
      if (script.acts) await this.#act(ref, call);
      if (script.isHeld && (calls === 1 || call < calls - 1)) await this.#hold(submissionId, heard);
    }
    failAsAsked(script, messages.at(-1)?.id ?? "");
    const isAnswered =
      plan !== undefined && !script.ignoreTools && this.ledger().turns.answer(ref, script.answer);
    const messageId = `reply-${submissionId}`;
    const text = script.text ?? "done";
    this.say(thread, messageId, text);
    const requestId = `request-${submissionId}`;
    const end = { outcome: "completed", messageId, requestId, text } as const;
    return plan ? endWithAnswer(end, { isAnswered, problem: undefined }) : end;
  }

  #hold(submissionId: string, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      this.held.set(submissionId, resolve);
      const stop = () => reject(signal?.reason);
      if (signal?.aborted) stop();
      else signal?.addEventListener("abort", stop, { once: true });
    });
  }

  async #act(ref: AttemptRef, call: number): Promise<void> {
    const decision = await this.ledger().turns.toolCalls(ref).start(act(call));
    if (decision.action === "run") decision.end({ output: "done" });
  }

  stop(_turn: SubmittedTurn, _reason: string | undefined): void {}

  async inspectConversation({ messages }: SubmittedTurn): Promise<ConversationState> {
    const count = messages.filter(({ id }) => this.has(id)).length;
    const applied = count === 0 ? "none" : count === messages.length ? "all" : "partial";
    return { applied, hasEffects: false };
  }

  async isRecovering(_thread: string): Promise<boolean> {
    return false;
  }

  async removeMessages({ messages, submissionId }: SubmittedTurn): Promise<void> {
    for (const id of [...messages.map(({ id }) => id), `reply-${submissionId}`]) {
      this.storage.sql.exec("DELETE FROM conversation WHERE id = ?", id);
    }
  }

  async onStatus({ submissionId, status }: SubmissionInspection): Promise<void> {
    this.statuses.push(`${submissionId}:${status}`);
  }

  submissionOf(_requestId: string): undefined {}

  isInHostContext(): boolean {
    return false;
  }

  isInsideTurn(): boolean {
    return false;
  }

  conversation(thread: string = MAIN): string[] {
    return this.storage.sql
      .exec<{ id: string }>("SELECT id FROM conversation WHERE thread = ? ORDER BY rowid", thread)
      .toArray()
      .map(({ id }) => id);
  }

  /** Appends a message, unless it is there; an isolated turn leaves none. */
  say(thread: string, id: string, text: string): void {
    if (isIsolated(thread)) return;
    this.storage.sql.exec(
      "INSERT OR IGNORE INTO conversation (id, text, thread) VALUES (?, ?, ?)",
      id,
      text,
      thread,
    );
  }

  /** Deletes all messages of a thread. */
  empty(thread: string): void {
    this.storage.sql.exec("DELETE FROM conversation WHERE thread = ?", thread);
  }

  private has(id: string): boolean {
    return (
      this.storage.sql.exec("SELECT 1 FROM conversation WHERE id = ?", id).toArray().length > 0
    );
  }
}

export class LedgerObject extends MeteredObject {
  readonly turns = new ScriptedTurns(this.ctx.storage, () => this.submissions);
  readonly wakeCapability = new WakeCapability();
  readonly #clock = clockOf(this.ctx.id.name ?? "");
  readonly outbox: Outbox = new Outbox({
    ...outboxSettings.get(this.ctx.id.name ?? ""),
    host: this,
    env: this.env,
    clock: this.#clock,
    onDeadLetter: (letter) => {
      notified.set(letter.id, (notified.get(letter.id) ?? 0) + 1);
      return outboxSettings.get(this.ctx.id.name ?? "")?.onDeadLetter?.(letter);
    },
  });
  readonly submissions: Submissions = this.#ledger(ledgerOptions.get(this.ctx.id.name ?? "") ?? {});

  #ledger({ holdAnswerMs, hookTimeoutMs, ...options }: TestOptions): Submissions {
    const submissions = new Submissions(this.turns, this.outbox, {
      ...options,
      clock: this.#clock,
    });
    const { limits } = submissions;
    if (holdAnswerMs !== undefined) limits.holdAnswerMs = holdAnswerMs;
    if (hookTimeoutMs !== undefined) limits.hookTimeoutMs = hookTimeoutMs;
    return submissions;
  }

  readonly prompts = new PromptKind(this.submissions, async () => ({}));
  readonly batches = new BatchKind(this.submissions, async () => ({}));

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.outbox.install(
      kindsWith({
        workflow: {
          deliver: async ({ instance }: WorkflowDestination, delivery: Sent) => {
            // As a request would: nothing leaves the object before earlier writes are durable.
            await ctx.storage.sync();
            await hand(instance, delivery);
          },
          endOf: async ({ instance }: WorkflowDestination) => (gone.has(instance) ? "gone" : null),
        },
      }),
    );
    this.lifecycle.use(this.outbox).use(this.submissions).use(this.wakeCapability);
    births.get(ctx.id.name ?? "")?.(this, ctx);
  }

  submit(messages: UIMessage[], options?: SubmitMessagesOptions) {
    return this.submissions.submit(messages, options);
  }

  inspect(id: string) {
    return this.submissions.inspect(id);
  }

  list(options?: Parameters<Submissions["list"]>[0]) {
    return this.submissions.list(options);
  }

  cancel(id: string, reason?: string) {
    return this.submissions.cancel(id, reason);
  }

  wait(id: string, options?: { timeoutMs?: number }) {
    return this.submissions.wait(id, options);
  }

  async prompt(asked: AskedPrompt) {
    const receipt = await this.prompts.open(asWait(asked));
    if (!receipt || !("waitId" in receipt)) throw new Error("It has no receipt");
    return { ...receipt, submissionId: receipt.waitId };
  }

  expire(waitId: string) {
    return this.prompts.close({ kind: "prompt", waitId });
  }

  async repair({ submissionId: refuses, run, workflow, problem }: PromptRepair) {
    const asked = { ...asWait({ ...NO_PROMPT, run, workflow }), refuses, request: { problem } };
    return this.prompts.open(asked);
  }

  repairPrompts({ batch, run, workflow, refused }: BatchRepairs & AskedBatch) {
    return this.#openBatch({ batch, run, workflow }, { refused });
  }

  acceptPrompts({ batch, run, workflow, ...request }: BatchRequest & AskedBatch) {
    return this.#openBatch({ batch, run, workflow }, request);
  }

  async #openBatch({ batch, run, workflow }: AskedBatch, request: BatchRequest | BatchRepairs) {
    const asked = { ...asWait({ ...NO_PROMPT, run, workflow }), kind: "batch" } as const;
    const receipt = await this.batches.open({ ...asked, idempotencyKey: batch, request });
    return { submissionIds: receipt.submissionIds as string[] };
  }

  async awaitPrompts({ batch, ...wait }: Omit<BatchRef, "kind" | "waitId"> & { batch: string }) {
    const end = await this.batches.check({ kind: "batch", waitId: batch, ...wait });
    return { isOver: end !== null, ...end };
  }

  expirePrompts({ batch, submissionIds }: { batch: string; submissionIds: readonly string[] }) {
    return this.batches.close({ kind: "batch", waitId: batch, submissionIds });
  }

  readPrompts(submissionIds: readonly string[]) {
    return this.batches.read({ kind: "batch", waitId: "", submissionIds });
  }

  readPrompt(id: string, part: number) {
    return this.prompts.read({ kind: "prompt", waitId: id }, part);
  }

  reset() {
    this.submissions.turns.reset();
  }

  /** How many rows a table has. */
  rowsIn(table: string): number {
    const query = `SELECT COUNT(*) AS rows FROM ${table}`;
    return this.ctx.storage.sql.exec<{ rows: number }>(query).one().rows;
  }

  async conversation(thread?: string): Promise<string[]> {
    return this.turns.conversation(thread);
  }
}

/** Delivers to a workflow instance, or fails as the test says. */
async function hand(instance: string, sent: Sent): Promise<void> {
  await couriers.get(instance)?.(sent);
  const refusal = refusals.get(instance);
  if (refusal && refusal.times > 0) {
    refusal.times--;
    throw refusal.isGone ? new UndeliverableError("gone") : new Error("refused");
  }
  const inbox = delivered.get(instance) ?? [];
  const payload = "event" in sent ? sent.event : sent;
  delivered.set(instance, [...inbox, { id: sent.id, payload }]);
}

/** How often a message's script has failed, over all restarts. */
const failures = new Map<string, number>();

/** Throws what a provider would, as often as the script says; always, where it does not say. */
function failAsAsked({ fail, failTimes, status, headers }: Script, messageId: string): void {
  const failed = failures.get(messageId) ?? 0;
  if (fail === undefined || failed >= (failTimes ?? Number.POSITIVE_INFINITY)) return;
  failures.set(messageId, failed + 1);
  throw Object.assign(new Error(fail), {
    ...(status !== undefined && { name: "AI_APICallError", statusCode: status }),
    responseHeaders: headers,
  });
}

function scriptOf(messages: UIMessage[]): TurnScript {
  const part = messages.at(-1)?.parts.at(-1);
  return part?.type === "text" && part.text.startsWith("{")
    ? (JSON.parse(part.text) as TurnScript)
    : {};
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
