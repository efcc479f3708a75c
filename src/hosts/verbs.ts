/** Every method that an agent with Perdure has for its callers. The agent's class takes them over with {@link addVerbs}. */

import type { AgentPathStep } from "agents";
import type { UIMessage } from "ai";
import { preview } from "../core/json.ts";
import type { Instant } from "../core/options/instant.ts";
import type {
  Acceptance,
  AcceptRequest,
  ApprovalLinkOptions,
  InstalledInbound,
  LinkAnswer,
  LinkCall,
  Links,
  ListInboundOptions,
  RefusedRequests,
  ReplayFilter,
} from "../inbound/index.ts";
import type { Kernel, RunWorkflow } from "../kernel/index.ts";
import type {
  DeadLetterFilter,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
  Outbox,
} from "../kernel/outbox/index.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  OutputSchema,
  SubmissionInspection,
  SubmissionOutput,
  SubmissionStats,
  SubmitMessagesOptions,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../kernel/submissions/index.ts";
import { checkThread } from "../kernel/submissions/internal.ts";
import type {
  GrantApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "../kernel/waits/index.ts";
import type { Filters, OperateRequest, PageOptions } from "../operator/index.ts";
import type { Operations } from "../operator/internal.ts";
import type { Scheduler } from "../scheduler/index.ts";
import type { FollowOptions } from "../streams/index.ts";
import type { Followers } from "../streams/internal.ts";
import type { ThreadMessage } from "./sdk/threads.ts";

/** A symbol, so that no member of an app's class can have the same name. */
export const CAPABILITIES: unique symbol = Symbol("perdure.capabilities");

/** What each feature adds to an agent. */
type Installed = {
  readonly operations: Operations;
  readonly followers: Followers;
  readonly schedules: Scheduler;
  readonly inbound: InstalledInbound;
  readonly signedLinks: Links;
};

/** @throws FeatureNotInstalledError */
function featureOf<Name extends keyof Installed>(
  agent: AgentVerbs,
  feature: Name,
  verb: string,
): Installed[Name] {
  return agent[CAPABILITIES].features.get(feature, `${verb}()`) as Installed[Name];
}

/** Copies the verbs to the prototype of a host's class. */
export function addVerbs(host: { readonly prototype: object }): void {
  const { constructor: _, ...verbs } = Object.getOwnPropertyDescriptors(AgentVerbs.prototype);
  Object.defineProperties(host.prototype, verbs);
}

export abstract class AgentVerbs {
  /** Sends events of your own: `this.outbox.put(webhook(url), event)` commits with the transaction around it. */
  abstract readonly outbox: Outbox;
  /** @internal */
  abstract readonly [CAPABILITIES]: Kernel;

  // Submissions

  /**
   * Accepts a turn durably, and returns when `onSubmissionStatus()` has returned for `pending`. The same idempotency key is
   * accepted once.
   * @param options.output a schema: the submission ends with an `output` that matches it. Over RPC pass `jsonSchemaOf(schema)`
   * @example
   * const { submissionId } = await this.submitMessages([message], { output: z.object({ city: z.string() }) });
   * const ended = await this.waitForSubmission(submissionId);
   * if (ended?.status === "completed") console.log(ended.output.city);
   * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError, BacklogFullError; nothing is
   *   stored then. Over RPC an error keeps its `name` and fields, not its class
   */
  submitMessages<Result extends SubmitMessagesResult<string> = SubmitMessagesResult<string>>(
    messages: UIMessage[],
  ): Promise<NoInfer<Result>>;
  // The compiler ignores type parameters when it compares an override with overloads. Without `Result`, an override with
  // Think's own types would not compile, because Think's result has fewer fields.
  submitMessages<
    Schema extends OutputSchema | undefined = undefined,
    Result extends SubmitMessagesResult<SubmissionOutput<Schema>> = SubmitMessagesResult<
      SubmissionOutput<Schema>
    >,
  >(messages: UIMessage[], options?: SubmitMessagesOptions<Schema>): Promise<NoInfer<Result>>;
  async submitMessages(
    messages: UIMessage[],
    options: SubmitMessagesOptions = {},
  ): Promise<SubmitMessagesResult> {
    return this[CAPABILITIES].submissions.submit(messages, options);
  }

  /**
   * Accepts many turns in one transaction and in their order: all, or none.
   * @throws what `submitMessages()` throws, for the first that is refused
   */
  async submitMany(
    submissions: readonly { messages: UIMessage[]; options?: SubmitMessagesOptions }[],
  ): Promise<SubmitMessagesResult[]> {
    return this[CAPABILITIES].submissions.submitMany(submissions);
  }

  /** The submission as it is now, or null for an unknown id. */
  async inspectSubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    return this[CAPABILITIES].submissions.inspect(submissionId);
  }

  /** Submissions, newest first. */
  async listSubmissions(options: ListSubmissionsOptions = {}): Promise<SubmissionInspection[]> {
    return this[CAPABILITIES].submissions.list(options);
  }

  /**
   * Submits a failed, cancelled or skipped submission again, with the same messages and key. Its messages move to the end of the conversation. A second call for the same submission returns the same new one.
   * Returns the new submission, or null for an unknown id.
   */
  async retrySubmission<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmitMessagesResult<OutputOfRef<Ref>> | null> {
    return this[CAPABILITIES].submissions.retry(submissionId);
  }

  /** How many submissions are open, and since when the oldest is pending. */
  async submissionStats(): Promise<SubmissionStats> {
    return this[CAPABILITIES].submissions.stats();
  }

  /** Cancels a submission that has not ended. It waits for `onSubmissionStatus()` to return. Returns what the call did. */
  async cancelSubmission(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult> {
    return this[CAPABILITIES].submissions.cancel(submissionId, reason);
  }

  /**
   * Resolves when the submission ends, or with its state after `timeoutMs`, or with null for an unknown id. After a restart of
   * the agent, call it again.
   * @throws Error from inside a turn or `onSubmissionStatus()`, where it could never resolve
   */
  async waitForSubmission<Ref extends string>(
    submissionId: Ref,
    options: WaitForSubmissionOptions = {},
  ): Promise<SubmissionInspection<OutputOfRef<Ref>> | null> {
    return this[CAPABILITIES].submissions.wait(submissionId, options);
  }

  // Streams

  /**
   * Follows a submission: its status, what its turn has said so far, what it says then, and its end. A stream of JSON lines,
   * which {@link readFollowed} reads. Following writes nothing, and may begin before, in or after the turn.
   * @returns null for an unknown submission
   * @throws InvalidFollowError for an invalid `from` or an unknown option, TooManyFollowersError
   * @example
   * const stream = await agent.followSubmission(submissionId);
   * if (stream) for await (const event of readFollowed(stream)) if (event.type === "status") console.log(event.submission.status);
   */
  async followSubmission(
    submissionId: string,
    options: FollowOptions = {},
  ): Promise<ReadableStream<Uint8Array> | null> {
    return featureOf(this, "followers", "followSubmission").submission(submissionId, options);
  }

  /** Follows all submissions of a thread, those that are open and later ones, as {@link followSubmission} does. It has no end. */
  async followThread(
    thread: string,
    options: FollowOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return featureOf(this, "followers", "followThread").thread(thread, options);
  }

  /** Follows an approval until it is decided. Returns null for an unknown one. @throws TooManyFollowersError */
  async followApproval(approvalId: string): Promise<ReadableStream<Uint8Array> | null> {
    return featureOf(this, "followers", "followApproval").approvalEvents(approvalId);
  }

  /** Deletes an ended submission. Returns whether there was one. */
  async deleteSubmission(submissionId: string): Promise<boolean> {
    return this[CAPABILITIES].submissions.delete(submissionId);
  }

  /** Deletes ended submissions, the oldest first. Returns how many were deleted. */
  async deleteSubmissions(options: DeleteSubmissionsOptions = {}): Promise<number> {
    return this[CAPABILITIES].submissions.deleteMany(options);
  }

  // Threads

  /** The messages of a thread. `"main"` is the agent's own conversation; an isolated turn leaves none. */
  async threadMessages(thread: string): Promise<ThreadMessage[]> {
    const { submissions, threads } = this[CAPABILITIES];
    checkThread(thread);
    await submissions.ready();
    return (await threads.messages(thread)) as ThreadMessage[];
  }

  /**
   * Deletes the messages of a named thread, cancels what runs in it, and ends its pending submissions as `skipped`. Use
   * `clearMessages()` for the main conversation.
   * @throws InvalidSubmissionError for `"main"` and `"isolated"`
   */
  async clearThread(thread: string): Promise<void> {
    const { submissions, threads } = this[CAPABILITIES];
    await submissions.clearThread(thread, () => threads.clear(thread));
  }

  // Approvals

  /**
   * Approvals that `step.approval()` of this agent's workflows has asked for, newest first; by default those that are pending.
   * @throws InvalidApprovalError for an unknown option or an invalid one
   */
  listApprovals(options?: ListApprovalsOptions) {
    return this[CAPABILITIES].approvals.list(options);
  }

  /** One approval, or null for an unknown id. A decided one is kept for 30 days. */
  inspectApproval(approvalId: string) {
    return this[CAPABILITIES].approvals.inspect(approvalId);
  }

  /**
   * Approves durably, and notifies the workflow. The first decision counts: a later one returns `already_decided` and changes
   * nothing. Your app checks who may decide. If the workflow's schema refuses the payload later, the approval becomes `refused`
   * and a new one with a `refusal` is opened; `onApproval()` is called for both.
   * @throws InvalidApprovalError for a payload that does not match the approval's schema; it stays pending then. Over RPC an
   *   error keeps its `name` and fields, not its class
   */
  grantApproval(approvalId: string, options?: GrantApprovalOptions) {
    return this[CAPABILITIES].approvals.grant(approvalId, options);
  }

  /** Rejects durably, and notifies the workflow: as {@link grantApproval}, without a payload. */
  rejectApproval(approvalId: string, options?: RejectApprovalOptions) {
    return this[CAPABILITIES].approvals.reject(approvalId, options);
  }

  /**
   * A signed URL that decides an approval once. It shows a page that asks, and changes nothing before its button is pressed.
   * The Worker serves it by `links()` of `perdure/webhooks`.
   * @throws InvalidApprovalError for an unknown approval, or a payload that it does not take; FeatureNotInstalledError without
   *   signedLinks()
   */
  async approvalLink(
    approvalId: string,
    decision: "grant" | "reject",
    options?: ApprovalLinkOptions,
  ): Promise<string> {
    const links = featureOf(this, "signedLinks", "approvalLink");
    return links.approvalLink(approvalId, decision, options);
  }

  // Scheduled tasks. Each method throws FeatureNotInstalledError without schedules().

  /** Reads `getScheduledTasks()` again. Call it when what that method reads has changed; each start of the agent does so itself. */
  async internal_reconcileScheduledTasks() {
    return featureOf(this, "schedules", "internal_reconcileScheduledTasks").reconcile();
  }

  /** The declared tasks: their next occurrences, how their runs ended, and what is wrong with them. */
  async listScheduledTasks(options?: { occurrences?: number }) {
    return featureOf(this, "schedules", "listScheduledTasks").list(options);
  }

  /** One task, or null for an id that is not declared. */
  async inspectScheduledTask(taskId: string, options?: { occurrences?: number }) {
    return featureOf(this, "schedules", "inspectScheduledTask").inspect(taskId, options);
  }

  /** Runs of a task, newest first. */
  async listScheduledRuns(taskId: string, options?: { limit?: number; before?: Instant }) {
    return featureOf(this, "schedules", "listScheduledRuns").runs(taskId, options);
  }

  /** Stops a task from firing until it is resumed; the note says why. */
  async pauseScheduledTask(taskId: string, note?: string) {
    return featureOf(this, "schedules", "pauseScheduledTask").pause(taskId, note);
  }

  /** Lets a paused task fire again, from its first occurrence after now. */
  async resumeScheduledTask(taskId: string) {
    return featureOf(this, "schedules", "resumeScheduledTask").resume(taskId);
  }

  /** Runs a task now, even if it is paused. The same key again returns the same run. */
  async triggerScheduledTask(taskId: string, options?: { key?: string }) {
    return featureOf(this, "schedules", "triggerScheduledTask").trigger(taskId, options);
  }

  /** Runs the occurrences of a past period, except those that have run. */
  async backfillScheduledTask(taskId: string, range: { from: Instant; to: Instant }) {
    return featureOf(this, "schedules", "backfillScheduledTask").backfill(taskId, range);
  }

  /** Skips the next occurrence of a task. Returns the time of that occurrence, or null if there is none. */
  async skipNextScheduledRun(taskId: string) {
    return featureOf(this, "schedules", "skipNextScheduledRun").skipNext(taskId);
  }

  // Outbox

  /**
   * Lists deliveries, newest first: waiting, dead and discarded ones, and those delivered ones that are kept.
   * @throws InvalidFilterError for an unknown option or an invalid value
   * @example const { items } = await agent.listDeliveries({ submissionId })
   */
  listDeliveries(options?: ListDeliveriesOptions) {
    return this[CAPABILITIES].outbox.listDeliveries(options);
  }

  /** The state of a delivery; null for an unknown id, or for a delivered one that is not kept. */
  inspectDelivery(id: string) {
    return this[CAPABILITIES].outbox.inspect(id);
  }

  /** The whole event of a delivery that was sent as a reference; null for an unknown id. */
  readDelivery(id: string) {
    return this[CAPABILITIES].outbox.read(id);
  }

  /** How many deliveries wait, and how many are dead letters. */
  outboxStats() {
    return this[CAPABILITIES].outbox.stats();
  }

  /** Dead letters, newest first. */
  listDeadLetters(options?: ListDeadLettersOptions) {
    return this[CAPABILITIES].outbox.listDeadLetters(options);
  }

  /** How many dead letters there are. */
  countDeadLetters(filter?: DeadLetterFilter) {
    return this[CAPABILITIES].outbox.countDeadLetters(filter);
  }

  /** Sends a dead letter again. Returns whether it is sent: false for an unknown id, and for one to a disabled endpoint. */
  redriveDeadLetter(id: string) {
    return this[CAPABILITIES].outbox.redrive(id);
  }

  /**
   * Sends dead letters again: since a time, for a destination, or all. Returns how many are sent.
   * Those to disabled endpoints stay dead letters, and so do those that may have been delivered, without `isUncertain: true`.
   */
  redriveDeadLetters(filter: DeadLetterFilter) {
    return this[CAPABILITIES].outbox.redriveAll(filter);
  }

  /** Deletes a dead letter. Returns whether there was one. */
  deleteDeadLetter(id: string) {
    return this[CAPABILITIES].outbox.deleteDeadLetter(id);
  }

  /** Deletes the dead letters of before a time. Returns how many were deleted. */
  deleteDeadLetters(options: { before: Instant }) {
    return this[CAPABILITIES].outbox.deleteDeadLetters(options);
  }

  /** The state of a webhook's URL. */
  inspectEndpoint(url: string) {
    return this[CAPABILITIES].outbox.inspectEndpoint(url);
  }

  /** The URLs of webhooks that are not healthy. */
  listEndpoints(page?: PageOptions) {
    return this[CAPABILITIES].outbox.listEndpoints(page);
  }

  /** Sends to a webhook's URL again, starting with its dead letters. Returns how many dead letters are sent. */
  enableEndpoint(url: string) {
    return this[CAPABILITIES].outbox.enableEndpoint(url);
  }

  /** Sends nothing more to a webhook's URL until it is enabled again. */
  disableEndpoint(url: string, reason?: string) {
    return this[CAPABILITIES].outbox.disableEndpoint(url, reason);
  }

  // Workflows

  /**
   * Starts a workflow durably and tracks it, as `runWorkflow()` of agents does. The start commits with the transaction around
   * the call, and happens once even after a crash. Params are stored as JSON until then. Resolves with the id when the instance
   * exists, or after 10 seconds; the start is retried for three days then, and becomes a dead letter.
   * @param options.id of the instance, unique over all Workflows of the agent. A new one by default
   * @param options.ifExists what happens if this Workflow has an instance with this id: `"throw"` (the default) rejects with a
   *   WorkflowExistsError, `"return"` resolves with its id. An id that another Workflow of the agent has always rejects
   * @param options.agentBinding the binding of this agent, or of its root agent, in this Worker
   * @throws InvalidDestinationError, InvalidEventError at the call and not as a rejection: `transactionSync()` is rolled back
   * @example
   * const started = this.ctx.storage.transactionSync(() => {
   *   this.sql`INSERT INTO orders (id) VALUES (${id})`;
   *   return this.runWorkflow("ORDER_WORKFLOW", { order: id }, { id });
   * });
   * await started;
   */
  runWorkflow<P = unknown>(workflowName: string, params: P, options?: RunWorkflow) {
    return this[CAPABILITIES].workflows.run(workflowName, params, options);
  }

  /**
   * Terminates a workflow, and cancels what it waits for. If the workflow was terminated before, here or elsewhere, it still
   * cancels what that workflow waits for, and throws.
   * @param options.rollback whether the `rollback` handlers of its steps run before it ends
   * @throws Error as `terminateWorkflow()` of agents: for a workflow that is not tracked, or that has ended; InvalidOptionError
   */
  async terminateWorkflow(workflowId: string, options?: { rollback?: boolean }): Promise<void> {
    await this[CAPABILITIES].workflows.terminate(workflowId, options);
  }

  // Inbound deliveries. Each method throws FeatureNotInstalledError without inbound().

  /**
   * For receivers of `perdure/webhooks`: accepts a delivery, and runs a call of its handler in the same transaction, or
   * counts requests that were refused.
   * @throws InvalidDeliveryError, or the error of storage; nothing is stored then
   */
  async acceptDelivery(request: AcceptRequest | RefusedRequests): Promise<Acceptance> {
    return featureOf(this, "inbound", "acceptDelivery").log.accept(request);
  }

  /** Deliveries that receivers have offered, newest first, without their bodies. @throws InvalidInboundFilterError */
  async listInboundDeliveries(options?: ListInboundOptions) {
    return featureOf(this, "inbound", "listInboundDeliveries").log.list(options);
  }

  /** One delivery with its body and what it has started; null if it is unknown. */
  async inspectInboundDelivery(source: string, id: string) {
    return featureOf(this, "inbound", "inspectInboundDelivery").log.inspect(source, id);
  }

  /**
   * Offers a delivery of the log to its handler in this Worker again. One whose handler has not ended, or that was filtered,
   * keeps its id, and its accepted calls are not run again. Another one becomes a new delivery. Returns null for an unknown one.
   * @throws ReplayError if this Worker has no such source, or the log no longer has the body
   */
  async replayInboundDelivery(source: string, id: string) {
    return featureOf(this, "inbound", "replayInboundDelivery").log.replay(source, id);
  }

  /**
   * Replays up to `limit` deliveries, by default those whose handler has not ended, the oldest first. Call it with the `cursor`
   * of the result to continue.
   * @throws InvalidInboundFilterError
   */
  async replayInboundDeliveries(filter?: ReplayFilter) {
    return featureOf(this, "inbound", "replayInboundDeliveries").log.replayMany(filter);
  }

  // For operators: `operator()` of `perdure/operator` calls these methods. Each throws FeatureNotInstalledError without operations().

  /** Counts, and what is wrong with its evidence, likely cause and remedy. Computed from rows; writes nothing. */
  async healthReport() {
    return featureOf(this, "operations", "healthReport").healthReport();
  }

  /**
   * Does what an operator asks for, and records it in the audit log. A filter is worked off in pages: call it again with the
   * `cursor` of the result.
   * @throws InvalidOperationError; nothing is stored then
   */
  async operate(request: OperateRequest) {
    return featureOf(this, "operations", "operate").operate(request);
  }

  /** The audit log of {@link operate}, newest first. */
  async listOperatorActions(page?: PageOptions) {
    return featureOf(this, "operations", "listOperatorActions").listActions(page);
  }

  /** The threads that submissions have used, the latest first. */
  async listThreads(page?: PageOptions) {
    return featureOf(this, "operations", "listThreads").listThreads(page);
  }

  /** The messages of a thread in pages, the last first: {@link threadMessages} returns all at once, which RPC limits to 32 MiB. */
  async listThreadMessages(thread: string, page?: PageOptions) {
    return featureOf(this, "operations", "listThreadMessages").listThreadMessages(thread, page);
  }

  /** The workflows that this agent has started and still tracks, newest first. */
  async listWorkflowInstances(options?: Filters["workflows"] & PageOptions) {
    return featureOf(this, "operations", "listWorkflowInstances").listWorkflows(options);
  }

  /** One workflow with its steps, or null for an id that is not tracked. */
  async inspectWorkflowInstance(workflowId: string) {
    return featureOf(this, "operations", "inspectWorkflowInstance").inspectWorkflow(workflowId);
  }

  /** Everything of a submission as spans, or null for an unknown id. */
  async traceSubmission(submissionId: string) {
    return featureOf(this, "operations", "traceSubmission").traceSubmission(submissionId);
  }

  /**
   * Calls between Perdure's own parts, such as a step of a workflow and its agent.
   * @internal
   * @throws Error for a call that the agent does not know
   */
  async callKernel(name: string, ...args: unknown[]): Promise<object | null | void> {
    const call = this[CAPABILITIES].calls.get(name);
    if (call) return call(...(args as never[])) as object | null | void;
    throw new Error(
      `The agent does not know the call ${preview(name)}. Deploy the agent, its workflows and its receivers with one version of Perdure.`,
    );
  }

  /** For `links()` of `perdure/webhooks`: does what a signed link asks for. @throws FeatureNotInstalledError without signedLinks() */
  async followLink(path: readonly AgentPathStep[], call: LinkCall): Promise<LinkAnswer> {
    return featureOf(this, "signedLinks", "followLink").follow(path, call);
  }
}
