/**
 * Think with durable submissions: the drop-in base class. Its layers have the
 * verbs of one room each; this one has what its workflows ask of it.
 */

import type { AgentPathStep } from "agents";
import { type InstanceOf, workflowEvent } from "../../outbox/index.ts";
import {
  type AnswerPart,
  acceptPrompt,
  acceptPrompts,
  awaitPrompts,
  expirePrompt,
  expirePrompts,
  isTerminal,
  type PromptEnd,
  type PromptReceipt,
  type PromptRepair,
  type PromptRepairs,
  type PromptRepairsReceipt,
  type PromptRequest,
  type PromptsExpiry,
  type PromptsPage,
  type PromptsReceipt,
  type PromptsRequest,
  type PromptsState,
  type PromptsWait,
  readPrompt,
  readPrompts,
  refusePrompts,
  repairPrompt,
  repairPrompts,
  type ThinkPromptReceipt,
} from "../../submissions/index.ts";
import type { Closing, WaitEnd, WaitReceipt, WaitRequest } from "../../waits/index.ts";
import type { RunWorkflow } from "../agent/workflow-starts.ts";
import { ThinkAgentTools } from "./think-agent-tools.ts";
import { CAPABILITIES } from "./think-rooms.ts";

/**
 * A Think agent whose submitted turns survive crashes, deploys and evictions,
 * and whose workflows can wait for them with `step.prompt()` and
 * `step.promptAll()` of `perdure/workflow`. Extend it where you extended `Think`.
 */
export class DurableThink<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkAgentTools<Env, State, Props> {
  /** For `step.prompt()`: accepts a prompt, or finds the one accepted before (W1). */
  async acceptPrompt(request: PromptRequest): Promise<PromptReceipt | ThinkPromptReceipt> {
    const { submissions, think } = this[CAPABILITIES];
    const { thinkKey, idempotencyKey } = request;
    const known = thinkKey === undefined ? null : await think.find({ idempotencyKey: thinkKey });
    if (!known || submissions.hasKey(idempotencyKey)) return acceptPrompt(submissions, request);
    return { submissionId: known.submissionId, hasEnded: isTerminal(known.status) };
  }

  /** For `step.prompt()`: the end of a prompt whose time is over, if it has one (W2). */
  async expirePrompt(
    submissionId: string,
    options: { cancel: boolean },
  ): Promise<PromptEnd | null> {
    const { submissions, think } = this[CAPABILITIES];
    const end = await think.expirePrompt(submissionId, options);
    return end === undefined ? expirePrompt(submissions, submissionId, options) : end;
  }

  /** For `step.prompt()`: a part of an answer that was told by a reference, or null where there is none (O4). */
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null> {
    return readPrompt(this[CAPABILITIES].submissions, submissionId, part);
  }

  /** For the steps of workflows that wait for something else than a turn (W1). */
  openWait(request: WaitRequest): Promise<WaitReceipt> {
    return this[CAPABILITIES].waits.open(request);
  }

  /** For those steps: how it ended; when their time is over, it is closed as they say (W2). */
  expireWait(waitId: string, closing: Closing | null): Promise<WaitEnd | null> {
    return this[CAPABILITIES].waits.expire(waitId, closing);
  }

  /** For those steps: a part of a result that was told by a reference, or null where there is none (O4). */
  readWait(waitId: string, part: number): Promise<AnswerPart | null> {
    return this[CAPABILITIES].waits.read(waitId, part);
  }

  /** For those steps: the result is not what the step can take, and a later run of the workflow asks afresh (W1, W4). */
  refuseWait(waitId: string): Promise<void> {
    return this[CAPABILITIES].waits.refuse(waitId);
  }

  /** For workflows of a sub-agent: where it is. */
  agentPath(): AgentPathStep[] {
    return [...this.selfPath];
  }

  /** For `step.promptAll()`: accepts a chunk of prompts, all or none, or finds those accepted before (W1). */
  acceptPrompts(request: PromptsRequest): Promise<PromptsReceipt> {
    return acceptPrompts(this[CAPABILITIES].submissions, request);
  }

  /** For `step.promptAll()`: tells the workflow by one event when all have ended, unless they have now (O1, W3). */
  awaitPrompts(wait: PromptsWait): Promise<PromptsState> {
    return awaitPrompts(this[CAPABILITIES].submissions, wait);
  }

  /** For `step.promptAll()`: the wait is over, and what is open is cancelled, if asked for (W2). */
  expirePrompts(expiry: PromptsExpiry): Promise<PromptsState> {
    return expirePrompts(this[CAPABILITIES].submissions, expiry);
  }

  /** For `step.promptAll()`: how prompts have ended, as many as the result of a step can hold (O4). */
  readPrompts(submissionIds: readonly string[]): Promise<PromptsPage> {
    return readPrompts(this[CAPABILITIES].submissions, submissionIds);
  }

  /** For `step.prompt()`: shows the model why the schema refuses its answer; null where no repair is left (W4). */
  repairPrompt(repair: PromptRepair): Promise<PromptReceipt | null> {
    return repairPrompt(this[CAPABILITIES].submissions, repair);
  }

  /** For `step.promptAll()`: the same for items of a batch. */
  repairPrompts(repairs: PromptRepairs): Promise<PromptRepairsReceipt> {
    return repairPrompts(this[CAPABILITIES].submissions, repairs);
  }

  /** For `step.prompt()` and `step.promptAll()`: their schema refuses these answers, and a later run asks afresh (W1, W4). */
  refusePrompts(submissionIds: readonly string[]): Promise<void> {
    return refusePrompts(this[CAPABILITIES].submissions, submissionIds);
  }

  /**
   * Starts a workflow durably, and tracks it as agents' own does: the start is stored in the caller's transaction, and
   * happens once, whatever crashes. Params are stored as JSON until then.
   *
   * Resolves with the id when the instance exists and is tracked. If the platform does not take it within 10 seconds, it
   * resolves as well, and the start is retried for three days; then it is a dead letter.
   *
   * @param options.id of the instance. A new one by default
   * @param options.ifExists what happens if an instance with this id exists: `"throw"` (the default) rejects with a
   *   WorkflowExistsError, `"return"` resolves with its id
   * @param options.agentBinding the binding of this agent, or of its root agent, in this Worker
   * @throws InvalidDestinationError, InvalidEventError at the call and not as a rejection, so that `transactionSync()` is
   *   rolled back
   * @example
   * const started = this.ctx.storage.transactionSync(() => {
   *   this.sql`INSERT INTO orders (id) VALUES (${id})`;
   *   return this.runWorkflow("ORDER_WORKFLOW", { order: id }, { id });
   * });
   * await started;
   */
  override runWorkflow<P = unknown>(
    workflowName: Parameters<ThinkAgentTools<Env, State, Props>["runWorkflow"]>[0],
    params: P,
    options?: RunWorkflow,
  ): Promise<string> {
    return this[CAPABILITIES].starts.run(workflowName, params, options);
  }

  /**
   * Terminates a workflow, and cancels what it waits for (W5). Where it was terminated before, here or elsewhere,
   * what it still waits for is cancelled all the same.
   *
   * @param options.rollback whether the `rollback` handlers of its steps run before it ends
   * @throws Error as agents' own: for a workflow that is not tracked, or that has ended
   */
  override async terminateWorkflow(
    workflowId: string,
    { rollback = false }: { rollback?: boolean } = {},
  ): Promise<void> {
    const workflow = this.getWorkflow(workflowId)?.workflowName ?? "";
    const of = { workflow, instance: workflowId };
    try {
      if (rollback && workflow !== "") await this.#terminateWithRollback(of);
      else await super.terminateWorkflow(workflowId);
    } catch (error) {
      // The app is told of the first error.
      if (await this.#isGone(of).catch(() => false)) await this.#cancelFor(of);
      throw error;
    }
    await this.#cancelFor(of);
  }

  /** @throws Error where nothing can be asked: the workflow is not tracked, or its binding has another name now */
  async #isGone(of: InstanceOf): Promise<boolean> {
    return this.outbox.isGone(workflowEvent({ ...of, eventType: "none" }));
  }

  /** Agents' own has no way to ask for it. */
  async #terminateWithRollback({ workflow, instance }: InstanceOf): Promise<void> {
    const binding = (this.env as object as Record<string, Workflow | undefined>)[workflow];
    if (!binding) throw new Error(`Workflow binding '${workflow}' not found in environment`);
    await (await binding.get(instance)).terminate({ rollback: true });
    // Reads the new status, and tracks it.
    await this.getWorkflowStatus(workflow as never, instance);
  }

  async #cancelFor(of: InstanceOf): Promise<void> {
    const reason = "The workflow that waited for it was terminated";
    await this[CAPABILITIES].submissions.cancelFor(of, reason);
    await this[CAPABILITIES].think.cancelFor(of, reason);
    await this[CAPABILITIES].waits.cancelFor(of, reason);
  }
}
