/**
 * The rooms of a Think agent: made, given to its lifecycle, and connected with
 * its hooks. What the agent offers to its callers is in the layers above.
 */

import {
  type ActiveTurn,
  type ReplyAttachment,
  Think,
  type ThinkSubmissionInspection,
} from "@cloudflare/think";
import { type Connection, getCurrentAgent } from "agents";
import { logProblem, type Problem } from "../../core/problems.ts";
import { type DeadLetter, Outbox, type OutboxSettings } from "../../outbox/index.ts";
import { Scheduler } from "../../scheduler/index.ts";
import {
  type LedgerOptions,
  type SubmissionInspection,
  Submissions,
} from "../../submissions/index.ts";
import { AgentTools, type Approval, Approvals, Waits } from "../../waits/index.ts";
import { agentToolPort } from "../agent/agent-tool-port.ts";
import { kindsOf } from "../agent/approval-clients.ts";
import { changeWakes, deletedBy, deleteWithWakes, type SubAgents } from "../agent/sub-agents.ts";
import { type SubmissionAudience, SubmissionClients } from "../agent/submission-clients.ts";
import { WorkflowStarts } from "../agent/workflow-starts.ts";
import type { ThinkHooks } from "./hooks.ts";
import { CAPABILITIES } from "./rooms.ts";
import { armedByThink, promptsTo, takeOver, tellOnError } from "./scheduled-tasks.ts";
import { ThinkHost } from "./think-host.ts";
import { inspectionOf, ThinkLedger } from "./think-ledger.ts";

/** Limits and retention, each with a default. */
export type DurableThinkOptions = LedgerOptions & {
  /** Of the outbox; the hooks are the methods `onDeadLetter()` and `onProblem()`. */
  readonly outbox?: Omit<OutboxSettings, "onDeadLetter" | "onProblem">;
};

export { CAPABILITIES };

export type Rooms = {
  readonly host: ThinkHost;
  readonly submissions: Submissions;
  readonly think: ThinkLedger;
  readonly waits: Waits;
  readonly approvals: Approvals;
  readonly agentTools: AgentTools;
  readonly scheduler: Scheduler;
  readonly starts: WorkflowStarts;
};

export class ThinkRooms<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends Think<Env, State, Props> {
  /** Events of the agent's own: `this.outbox.put(webhook(...), event)` inside any transaction (O1). */
  readonly outbox: Outbox;
  /** @internal */
  readonly [CAPABILITIES]: Rooms;

  /**
   * @param options limits and retention; pass them on from the constructor of your class
   * @throws InvalidOptionError for an option that cannot be meant
   */
  constructor(ctx: DurableObjectState, env: Env, { outbox, ...options }: DurableThinkOptions = {}) {
    super(ctx, env);
    const onProblem = (problem: Problem) => this.onProblem(problem);
    this.outbox = new Outbox({
      ...outbox,
      onProblem,
      host: this,
      env,
      onDeadLetter: (letter) => this.onDeadLetter(letter),
      startWorkflow: (start, create) => starts.start(start, create),
      problemOfStart: (start) => starts.problemOf(start),
    });
    const starts = new WorkflowStarts({
      env,
      id: ctx.id,
      path: () => this.selfPath,
      outbox: this.outbox,
      getWorkflow: (id) => this.getWorkflow(id),
      getWorkflowStatus: (name, id) => this.getWorkflowStatus(name, id),
      runWorkflow: (binding, name, ...rest) =>
        this.#withBinding(name, binding, () => super.runWorkflow(name, ...rest)),
    });
    const think = new ThinkLedger(this as unknown as Think);
    const host = new ThinkHost({
      agent: this as unknown as Think,
      activeTurn: () => super.activeTurn,
      isInContext: () => getCurrentAgent().agent === this,
      think,
      ledger: () => submissions,
      wrapHooks: () => this.#wrapHooks(),
      clients: new SubmissionClients({
        getConnections: () => this.getConnections(),
        choice: () => this.#submissionChoice(),
      }),
      onStatus: async (submission) => this.onSubmissionStatus(submission),
    });
    const submissions = new Submissions(host, this.outbox, { ...options, onProblem });
    const scheduler: Scheduler = new Scheduler({
      tasks: takeOver(this, {
        beforeDisarming: () => scheduler.adopt(() => armedByThink(this as unknown as Think, think)),
        afterStart: () => scheduler.reconcile(),
      }),
      defaultTimezone: () => this.getDefaultTimezone(),
      scope: () => this.getScheduledTasksScope(),
      prompts: promptsTo(submissions),
      onFailure: (error) => tellOnError(this, error),
      onInvalid: (error) => tellOnError(this, error),
      onProblem,
    });
    const approvalHooks = {
      shouldSendApproval: (approval: Approval, connection: Connection) =>
        this.shouldSendApproval(approval, connection),
      onApproval: (approval: Approval) => this.onApproval(approval),
    };
    const agentTools = new AgentTools(
      agentToolPort(this as unknown as Think, "finishAgentToolStep"),
      () => waits,
    );
    const waits: Waits = new Waits({
      outbox: this.outbox,
      kinds: () => kindsOf(this as unknown as Think, { agentTools, ...approvalHooks }),
    });
    const approvals = new Approvals(waits);
    this[CAPABILITIES] = {
      host,
      submissions,
      think,
      waits,
      agentTools,
      approvals,
      scheduler,
      starts,
    };
    this.lifecycle.use(this.outbox).use(submissions).use(waits).use(scheduler);
  }

  /**
   * Called at least once for each delivery that was given up; what it throws
   * is logged, and changes nothing (O3). Override it.
   */
  protected onDeadLetter(_letter: DeadLetter): void | Promise<void> {}

  /**
   * Called once for each problem that could go unnoticed: a submission that ended in `error`, a dead letter, an endpoint
   * that starts to fail or recovers, a full outbox or queue of scheduled runs. A crash at that moment may repeat a dead
   * letter, and may leave out another problem. What it throws is logged. Override it to log in another way, or not at all.
   *
   * @default logs one line of JSON with `console.error()` or `console.warn()`
   * @example
   * protected override onProblem(problem: Problem) {
   *   if (problem.type !== "outbox:endpoint") super.onProblem(problem);
   * }
   */
  protected onProblem(problem: Problem): void | Promise<void> {
    const agent = { agent: this.constructor.name, name: this.name };
    logProblem({ ...problem, ids: { ...agent, ...problem.ids } });
  }

  /**
   * Called after each change of a submission's status, in the order of that submission's changes. `submitMessages()`,
   * the turn and `cancelSubmission()` wait for it, at most `statusHookTimeout`; what it throws is logged, and changes
   * nothing. Do not wait for a turn in it. Override it.
   */
  protected override onSubmissionStatus(_submission: SubmissionInspection): void | Promise<void> {}

  /**
   * Decides whether a connected client is sent the whole approval when it changes: its data, schema, workflow and decision.
   * Every other client is sent `approvalId`, `status` and `title`. Override it.
   *
   * @returns true for the whole approval
   * @default false
   * @example
   * protected override shouldSendApproval(approval: Approval, connection: Connection<{ isAdmin: boolean }>) {
   *   return connection.state?.isAdmin === true;
   * }
   */
  protected shouldSendApproval(_approval: Approval, _connection: Connection): boolean {
    return false;
  }

  /**
   * Decides what a connected client is sent of a submission: `"status"` for each change of its status, `true` for that and
   * the reply of a turn in a named thread, or an isolated one, while it is written. Asked at each change, and once per
   * attempt for the reply. Clients get {@link SubmissionMessage} and {@link ReplyMessage}. Override it.
   *
   * @returns false for nothing
   * @default false
   * @example
   * protected override shouldSendSubmission({ metadata }: SubmissionInspection, connection: Connection<{ user: string }>) {
   *   return metadata?.user === connection.state?.user;
   * }
   */
  protected shouldSendSubmission(
    _submission: SubmissionInspection,
    _connection: Connection,
  ): SubmissionAudience {
    return false;
  }

  /**
   * Called after an approval was asked for, decided, expired or cancelled, when the connected clients have been told.
   * What it throws is logged, and changes nothing; a crash right after the change may leave it out. Override it.
   */
  protected onApproval(_approval: Approval): void | Promise<void> {}

  /** The agent's sub-agents. `delete()` also removes the wakes that the root keeps for one, and for all below it. */
  override get dynamicAgents(): SubAgents {
    return deletedBy(super.dynamicAgents, (step, remove) =>
      deleteWithWakes(this.#rooms, [...this.selfPath, step], remove),
    );
  }

  /** Deletes the agent with all that it stored. The wakes that the root keeps for a sub-agent come soon then, and lapse. */
  override async destroy(): Promise<void> {
    if (this.parentPath.length > 0) await changeWakes(this.#rooms, this.selfPath, "expedite");
    await super.destroy();
  }

  get #rooms() {
    const { submissions, waits, scheduler } = this[CAPABILITIES];
    return [this.outbox, submissions, waits, scheduler];
  }

  /** The turn that the caller runs in; that of a submission has its `requestId`, and `"submission"` as its trigger. */
  override get activeTurn(): ActiveTurn | undefined {
    return this[CAPABILITIES].host.activeTurn();
  }

  /** Aborts a turn that runs, by the `requestId` of a submission or by Think's own id of a turn. */
  override cancelChat(requestId: string, reason?: string): void {
    super.cancelChat(requestId, reason);
    this[CAPABILITIES].submissions.stopTurn(requestId, reason);
  }

  /** The same, for subclasses. */
  protected override abortRequest(requestId: string, reason?: unknown): void {
    super.abortRequest(requestId, reason);
    this[CAPABILITIES].submissions.stopTurn(
      requestId,
      reason === undefined ? reason : String(reason),
    );
  }

  /** What the latest turn has attached to its reply, by the `requestId` of a submission or by Think's own id of a turn. */
  override replyAttachments(requestId?: string): ReplyAttachment[] {
    const turn = requestId === undefined ? undefined : this[CAPABILITIES].host.turnOf(requestId);
    return super.replyAttachments(turn ?? requestId);
  }

  /** Deletes the agent's own conversation. Ends what runs in it and what waits for its turn, also what a crash has interrupted. */
  override async clearMessages(): Promise<void> {
    this.resetTurnState();
    await this[CAPABILITIES].host.recovery.caughtUp();
    await super.clearMessages();
  }

  /** An app that does not choose pays nothing for it. */
  #submissionChoice() {
    if (this.shouldSendSubmission === ThinkRooms.prototype.shouldSendSubmission) return undefined;
    return (submission: SubmissionInspection, connection: Connection) =>
      this.shouldSendSubmission(submission, connection);
  }

  /** Runs the synchronous part of `work` with another binding of this name in `env`. */
  #withBinding<T>(name: string, binding: object, work: () => T): T {
    const { env } = this;
    this.env = { ...env, [name]: binding };
    try {
      return work();
    } finally {
      this.env = env;
    }
  }

  protected override resetTurnState(): void {
    super.resetTurnState();
    this[CAPABILITIES].submissions.reset({
      name: "TurnResetError",
      message: "Submission was skipped by turn reset.",
    });
  }

  #wrapHooks(): void {
    const app: ThinkHooks = {
      beforeTurn: this.beforeTurn.bind(this),
      beforeStep: this.beforeStep.bind(this),
      beforeToolCall: this.beforeToolCall.bind(this),
      afterToolCall: this.afterToolCall.bind(this),
      onStepEnd: this.onStepEnd.bind(this),
      onChunk: this.onChunk.bind(this),
      onChatResponse: this.onChatResponse.bind(this),
      onChatError: this.onChatError.bind(this),
      classifyChatError: this.classifyChatError.bind(this),
      onChatRecovery: this.onChatRecovery.bind(this),
      chatRecovery: this.chatRecovery,
      observability: this.observability,
    };
    const onSubmissionStatus = this.onSubmissionStatus.bind(this);
    Object.assign(this, this[CAPABILITIES].host.wrap(app), {
      // Think calls it for those that Think runs.
      onSubmissionStatus: (submission: SubmissionInspection | ThinkSubmissionInspection) =>
        onSubmissionStatus(
          "thread" in submission ? submission : inspectionOf(submission, this.messages),
        ),
    });
  }
}
