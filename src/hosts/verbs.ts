/** Every method that an agent with Perdure has for its callers. An agent's class has them by `durableBase()`. */

import type { UIMessage } from "ai";
import type { InstalledInbound } from "../features/inbound/feature.ts";
import type { Inbound } from "../features/inbound/inbound.ts";
import type { LimitControls } from "../features/limits/controls.ts";
import type { InstalledLimits } from "../features/limits/limits.ts";
import type { FollowOptions } from "../features/streams/cursor.ts";
import type { Followers } from "../features/streams/followers.ts";
import type { Operations } from "../operator/operations.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { Scheduler } from "../scheduler/scheduler.ts";
import { checkThread } from "../submissions/intake/request.ts";
import type { OutputSchema, SubmitMessagesOptions } from "../submissions/submit-options.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  SubmissionInspection,
  SubmissionStats,
  SubmitMessagesResult,
  Submitted,
  WaitForSubmissionOptions,
} from "../submissions/types.ts";
import { callOf } from "../workflow/agent/calls.ts";
import {
  CAPABILITY_VERBS,
  type CapabilityName,
  remoteOf,
  type VerbOf,
} from "../workflow/agent/capabilities.ts";
import type { Kernel } from "../workflow/agent/kernel.ts";
import type { RunWorkflow } from "../workflow/agent/workflows.ts";
import type { Approvals } from "../workflow/waits/kinds/approval.ts";
import type { ThreadMessage } from "./sdk/threads.ts";

/** A symbol, so that no member of an app's class can have the same name. */
export const CAPABILITIES: unique symbol = Symbol("perdure.capabilities");

export interface OutboxVerbs extends Pick<Outbox, "put" | VerbOf<"outbox">> {}
export interface ApprovalVerbs extends Pick<Approvals, VerbOf<"approvals">> {}
export interface ScheduleVerbs extends Pick<Scheduler, VerbOf<"schedules">> {}
export interface InboundVerbs extends Pick<Inbound, VerbOf<"inbound">> {}
export interface LimitVerbs extends Pick<LimitControls, VerbOf<"limits">> {}
export interface OperationVerbs extends Pick<Operations, VerbOf<"operations">> {}

/**
 * The capabilities of the agent behind a stub, such as those of a Durable Object, of `getAgentByName()` and `getSubAgentByName()`.
 * Makes no call; each verb is one. An error keeps its `name` and fields, not its class.
 * @example const { items } = await capabilitiesOf(stub).outbox.listDeadLetters();
 */
export const capabilitiesOf = remoteOf<Pick<AgentVerbs, CapabilityName>>;

/** What each feature adds to an agent. */
type Installed = {
  readonly operations: Operations;
  readonly followers: Followers;
  readonly schedules: Scheduler;
  readonly inbound: InstalledInbound;
  readonly limits: InstalledLimits;
};

/** @throws FeatureNotInstalledError */
function featureOf<Name extends keyof Installed>(
  agent: AgentVerbs,
  feature: Name,
  usedBy: string,
): Installed[Name] {
  return agent[CAPABILITIES].features.get(feature, usedBy) as Installed[Name];
}

/** A verb of a capability by its whole name, such as `outbox.stats`; undefined for what is none. */
function verbOf(agent: AgentVerbs, name: string): ((...args: never[]) => unknown) | undefined {
  const [capability, verb] = String(name).split(".", 2) as [CapabilityName, string];
  const verbs: readonly string[] | undefined = Object.hasOwn(CAPABILITY_VERBS, capability)
    ? CAPABILITY_VERBS[capability]
    : undefined;
  if (!verbs?.includes(verb)) return undefined;
  // By the agent's property, which its class may override.
  const capabilities = agent[capability] as unknown as Record<
    string,
    (...args: never[]) => unknown
  >;
  return capabilities[verb]?.bind(capabilities);
}

export abstract class AgentVerbs {
  /** @internal */
  declare readonly [CAPABILITIES]: Kernel;

  /** Sends events of your own: `this.outbox.put(webhook(url), event)` commits with the transaction around it. Lists deliveries and dead letters, and sends them again. */
  get outbox(): OutboxVerbs {
    return this[CAPABILITIES].outbox;
  }

  // Submissions

  /**
   * Accepts a turn durably, and returns when `onSubmissionStatus()` has returned for `pending`. The same idempotency key is
   * accepted once.
   * @param options.output a schema: the submission ends with an `output` that matches it. Over RPC pass
   *   `jsonSchemaOf(schema)`: a schema of Zod is a bare DataCloneError of the platform there
   * @example
   * const { submissionId } = await this.submitMessages([message], { output: z.object({ city: z.string() }) });
   * const ended = await this.waitForSubmission(submissionId);
   * if (ended?.status === "completed") console.log(ended.output.city);
   * @throws InvalidSubmissionError, SubmissionIdentityError, IdempotencyConflictError, BusyError, BacklogFullError; nothing is
   *   stored then. Over RPC an error keeps its `name` and fields, not its class
   */
  submitMessages<Schema extends undefined = undefined>(
    messages: UIMessage[],
  ): Promise<Submitted<Schema>>;
  submitMessages<Schema extends OutputSchema | undefined = undefined>(
    messages: UIMessage[],
    options?: SubmitMessagesOptions<Schema>,
  ): Promise<NoInfer<Submitted<Schema>>>;
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
    return featureOf(this, "followers", "followSubmission()").submission(submissionId, options);
  }

  /** Follows all submissions of a thread, those that are open and later ones, as {@link followSubmission} does. It has no end. */
  async followThread(
    thread: string,
    options: FollowOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return featureOf(this, "followers", "followThread()").thread(thread, options);
  }

  /** Follows an approval until it is decided. Returns null for an unknown one. @throws TooManyFollowersError */
  async followApproval(approvalId: string): Promise<ReadableStream<Uint8Array> | null> {
    return featureOf(this, "followers", "followApproval()").approvalEvents(approvalId);
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

  /** Approvals that `step.approval()` of this agent's workflows has asked for. From elsewhere: {@link capabilitiesOf}. */
  get approvals(): ApprovalVerbs {
    return this[CAPABILITIES].approvals;
  }

  // Scheduled tasks

  /** The declared tasks and their runs. @throws FeatureNotInstalledError without schedules() */
  get schedules(): ScheduleVerbs {
    return featureOf(this, "schedules", "agent.schedules");
  }

  /** Reads `getScheduledTasks()` again. Call it when what that method reads has changed; each start of the agent does so itself. */
  async internal_reconcileScheduledTasks() {
    return featureOf(this, "schedules", "internal_reconcileScheduledTasks()").reconcile();
  }

  // Workflows

  /**
   * Starts a workflow durably and tracks it, as `runWorkflow()` of agents does. The start commits with the transaction around
   * the call, and happens once even after a crash. Params are stored until then: what structured clone takes. Resolves with the id when
   * the instance exists, or after 10 seconds; the start is retried for three days then, and becomes a dead letter.
   * @param options.id of the instance, unique over all agents that start this Workflow and over all Workflows of the agent: put
   *   what tells the agents apart into it. A new one by default
   * @param options.ifExists what happens if this agent has started an instance of this Workflow with this id: `"throw"` (the
   *   default) rejects with a WorkflowExistsError, `"return"` resolves with its id. An id of another agent, or of another Workflow
   *   of the agent, always rejects
   * @param options.agentBinding the binding of this agent, or of its root agent, in this Worker
   * @param options.metadata inherited by the prompts of the run, as are `priority`, `concurrency` and `rate`
   * @throws InvalidDestinationError, InvalidEventError, InvalidSubmissionError at the call and not as a rejection: `transactionSync()` is rolled back
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

  /**
   * Runs a workflow again from its beginning. Completed prompts, agent tools and arrivals return their stored results; the
   * code of `step.do()` runs again, and approvals are requested again. What the earlier run has left open is cancelled
   * unless the new run asks for the same.
   * @throws Error as `restartWorkflow()` of agents: for a workflow that is not tracked; InvalidOptionError
   */
  async restartWorkflow(workflowId: string, options?: { resetTracking?: boolean }): Promise<void> {
    await this[CAPABILITIES].workflows.restart(workflowId, options);
  }

  // Arrivals. Each method throws FeatureNotInstalledError without inbound().

  /** The log of what receivers have offered. @throws FeatureNotInstalledError without inbound() */
  get inbound(): InboundVerbs {
    return featureOf(this, "inbound", "agent.inbound").log;
  }

  /** The limits that agents share. @throws FeatureNotInstalledError without limits() */
  get limits(): LimitVerbs {
    return featureOf(this, "limits", "agent.limits").controls;
  }

  /** What operators see and do. `operator()` of `perdure/operator` calls it. @throws FeatureNotInstalledError without operations() */
  get operations(): OperationVerbs {
    return featureOf(this, "operations", "agent.operations");
  }

  /**
   * Calls between Perdure's own parts, such as a step of a workflow and its agent.
   * @internal
   * @throws FeatureNotInstalledError, InvalidWaitError
   */
  async callKernel(name: string, ...args: unknown[]): Promise<object | null | void> {
    return callOf(this[CAPABILITIES], name, args, verbOf(this, name)) as object | null | void;
  }
}
