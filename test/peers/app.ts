/**
 * The app that runs on both sides. It is written once, over the base class: on Think, and on DurableThink. What an agent
 * does beyond that is set by its name, and what its hooks saw is logged by its name, in this isolate.
 */

import {
  type Action,
  action,
  type ChatErrorContext,
  type ChatResponseResult,
  type ChunkContext,
  type StepContext,
  type SubmitMessagesOptions,
  Think,
  type ThinkScheduledTasks,
  type ThinkSubmissionInspection,
  type ToolCallContext,
  type ToolCallDecision,
  type ToolCallResultContext,
  type TurnConfig,
  type TurnContext,
} from "@cloudflare/think";
import {
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "@cloudflare/think/workflows";
import { getCurrentAgent } from "agents";
import type { AgentWorkflowEvent, DefaultProgress } from "agents/workflows";
import { type ToolSet, tool, type UIMessage } from "ai";
import { z } from "zod";
import { DurableThink } from "../../src/hosts/think/index.ts";
import { RecordingModel } from "../../src/testing/index.ts";
import * as perdureWorkflow from "../../src/workflow/index.ts";

/** One thing that a hook of an agent saw. */
export type Entry = { readonly hook: string; readonly [detail: string]: unknown };

/** The agent, as the app's settings see it. */
type Host = Think<Cloudflare.Env>;

/** What the app of one agent does. */
export type Settings = {
  tasks?: (agent: Host) => ThinkScheduledTasks | Promise<ThinkScheduledTasks>;
  scope?: "root" | "all";
  timezone?: string;
  beforeTurn?: (ctx: TurnContext, agent: Host) => TurnConfig | undefined;
  beforeToolCall?: (ctx: ToolCallContext) => ToolCallDecision | undefined;
  onChatResponse?: (result: ChatResponseResult, agent: Host) => Promise<void>;
  onStatus?: (submission: ThinkSubmissionInspection, agent: Host) => Promise<void>;
  /** The work of the tool `work`. */
  work?: (input: { text: string }, agent: Host) => unknown;
  system?: string;
  /** Whether it has the action `act`. */
  hasAction?: boolean;
};

/** By the names of agents. */
export const settingsOf = new Map<string, Settings>();
const logs = new Map<string, Entry[]>();
const models = new Map<string, RecordingModel>();

function kept<T>(map: Map<string, T>, name: string, make: () => T): T {
  const found = map.get(name) ?? make();
  map.set(name, found);
  return found;
}

export const logOf = (name: string): Entry[] => kept(logs, name, () => []);
/** The model of an agent, with all its calls over all starts of the agent. */
export const modelOf = (name: string) => kept(models, name, () => new RecordingModel());

type Binding = "PEER_BUILT_IN_WORKFLOW" | "PEER_PERDURE_WORKFLOW";

/** The whole app. `workflow` is the binding of its Workflow, which is of another class on each side. */
function app(Base: typeof Think<Cloudflare.Env>, workflow: Binding) {
  return class PeerApp extends Base {
    override chatRecovery = { maxAttempts: 3, stableTimeoutMs: 1_000 };

    override getModel() {
      return modelOf(this.name);
    }

    override getSystemPrompt() {
      return this.settings().system ?? "You are a peer.";
    }

    override getTools(): ToolSet {
      return {
        work: tool({
          description: "Does the work of the case.",
          inputSchema: z.object({ text: z.string() }),
          execute: async (input) => {
            this.note("execute", { input, activeTurn: this.activeTurn });
            return (await this.settings().work?.(input, this)) ?? `worked: ${input.text}`;
          },
        }),
      };
    }

    override getActions(): Record<string, Action> | Promise<Record<string, Action>> {
      if (!this.settings().hasAction) return super.getActions();
      return {
        act: action({
          description: "Acts.",
          inputSchema: z.object({}),
          execute: async (_input, { requestId }) => {
            this.note("act", { requestId, active: this.activeTurn?.requestId });
            return "acted";
          },
        }),
      };
    }

    override submitMessages(messages: UIMessage[], options?: SubmitMessagesOptions) {
      const [part] = messages[0]?.parts ?? [];
      this.note("submitMessages", { text: part?.type === "text" ? part.text : "" });
      return super.submitMessages(messages, options);
    }

    override getScheduledTasks(): ThinkScheduledTasks | Promise<ThinkScheduledTasks> {
      return this.settings().tasks?.(this) ?? super.getScheduledTasks();
    }

    override getScheduledTasksScope(): "root" | "all" | Promise<"root" | "all"> {
      return this.settings().scope ?? super.getScheduledTasksScope();
    }

    override getDefaultTimezone() {
      return this.settings().timezone;
    }

    override beforeTurn(ctx: TurnContext): TurnConfig | undefined {
      const { requestId, trigger, continuation, system, body } = ctx;
      const { activeTurn } = this;
      const tools = Object.keys(ctx.tools).filter((name) => name === "work" || isFinal(name));
      this.note("beforeTurn", {
        ...{ requestId, trigger, continuation, system, body, activeTurn, tools },
        messages: ctx.messages.length,
        hasSignal: ctx.abortSignal !== undefined,
      });
      return this.settings().beforeTurn?.(ctx, this);
    }

    override beforeStep(ctx: { stepNumber: number; steps: unknown[] }) {
      this.note("beforeStep", { stepNumber: ctx.stepNumber, steps: ctx.steps.length });
      return undefined;
    }

    override beforeToolCall(ctx: ToolCallContext) {
      const { toolName, input, requestId, stepNumber } = ctx;
      this.note("beforeToolCall", { toolName, input, requestId, stepNumber });
      return this.settings().beforeToolCall?.(ctx);
    }

    override afterToolCall(ctx: ToolCallResultContext) {
      const { toolName, input, success } = ctx;
      const output = ctx.success ? ctx.output : String(ctx.error);
      this.note("afterToolCall", { toolName, input, success, output });
    }

    override onStepFinish(ctx: StepContext) {
      const { finishReason, text, usage } = ctx;
      const tokens = [usage.inputTokens, usage.outputTokens];
      this.note("onStepFinish", { finishReason, text, tokens });
    }

    override onChunk(ctx: ChunkContext) {
      this.note("onChunk", { type: ctx.chunk.type });
    }

    override async onChatResponse(result: ChatResponseResult) {
      const { requestId, continuation, status, error } = result;
      const { role, parts, id } = result.message;
      const types = parts.map(({ type }) => type).filter((type) => type !== "step-start");
      this.note("onChatResponse", { requestId, continuation, status, error, role, types, id });
      await this.settings().onChatResponse?.(result, this);
    }

    override onChatError(error: unknown, ctx?: ChatErrorContext) {
      const { requestId, stage, messagesPersisted } = ctx ?? {};
      const message = error instanceof Error ? error.message : String(error);
      this.note("onChatError", { message, requestId, stage, messagesPersisted });
      return error;
    }

    override onError(first: unknown, error?: unknown): void {
      this.note("onError", {
        message: (error ?? first) instanceof Error ? messageOf(error ?? first) : "",
      });
    }

    protected override async onSubmissionStatus(submission: ThinkSubmissionInspection) {
      const { submissionId, status, error, requestId } = submission;
      const url = getCurrentAgent().request?.url;
      this.note("onSubmissionStatus", { submissionId, status, error, requestId, url });
      await this.settings().onStatus?.(submission, this);
    }

    override async onRequest(request: Request): Promise<Response> {
      const accepted = await this.submitMessages([...(await request.json<never[]>())]);
      return Response.json(accepted);
    }

    override async onWorkflowProgress(name: string, id: string, progress: unknown) {
      this.note("onWorkflowProgress", { name, id, progress });
    }

    override async onWorkflowComplete(name: string, id: string, result?: unknown) {
      this.note("onWorkflowComplete", { name, id, result });
    }

    override async onWorkflowError(name: string, id: string, error: string) {
      this.note("onWorkflowError", { name, id, error });
    }

    override async onWorkflowEvent(name: string, id: string, event: unknown) {
      this.note("onWorkflowEvent", { name, id, event });
    }

    /** Called by workflows, as the documentation's `applyLabels()` is. */
    applyLabels(labels: string[]) {
      this.note("applyLabels", { labels });
    }

    start(id: string, metadata?: Record<string, unknown>): Promise<string> {
      return this.runWorkflow(workflow, { from: id }, { id, ...(metadata && { metadata }) });
    }

    tell(id: string, type: string, payload: unknown): Promise<void> {
      return this.sendWorkflowEvent(workflow, id, { type, payload });
    }

    /** What Think documents as protected. */
    reset(): void {
      this.resetTurnState();
    }

    defaults() {
      const scope = super.getScheduledTasksScope();
      return { tasks: super.getScheduledTasks(), scope, timezone: super.getDefaultTimezone() };
    }

    /** When the declared tasks are due. */
    async armedTasks(): Promise<{ taskId: string; at: number }[]> {
      if ("schedules" in this) {
        type Listed = { items: { taskId: string; next: number | null }[] };
        const schedules = this.schedules as { list(): Promise<Listed> };
        const { items: tasks } = await schedules.list();
        return tasks.flatMap(({ taskId, next }) => (next ? [{ taskId, at: next }] : []));
      }
      const schedules = await this.listSchedules();
      return schedules.flatMap(({ payload }) => {
        const { taskId, scheduledFor } = (payload ?? {}) as {
          taskId?: string;
          scheduledFor: number;
        };
        return taskId === undefined ? [] : [{ taskId, at: scheduledFor }];
      });
    }

    /** Calls a method of a sub-agent of the same class. */
    async onChild(name: string, method: string, ...args: unknown[]): Promise<unknown> {
      const child: unknown = await this.subAgent(this.constructor as never, name);
      return Reflect.apply((child as Record<string, () => unknown>)[method] as never, child, args);
    }

    async deleteChild(name: string): Promise<void> {
      await this.deleteSubAgent(this.constructor as never, name);
    }

    note(hook: string, details: object): void {
      logOf(this.name).push({ hook, ...structured(details) });
    }

    settings(): Settings {
      return settingsOf.get(this.name) ?? {};
    }
  };
}

const isFinal = (name: string) => name.startsWith("think_final_answer");
const messageOf = (error: unknown) => (error as Error).message;

/** Without what is undefined, and apart from what changes later. */
function structured(details: object): object {
  return JSON.parse(JSON.stringify(details)) as object;
}

// Named as their bindings are, by which agents finds them.
export class PeerThink extends app(Think, "PEER_BUILT_IN_WORKFLOW") {}
export class PeerDurable extends app(
  DurableThink as unknown as typeof Think<Cloudflare.Env>,
  "PEER_PERDURE_WORKFLOW",
) {}
export type PeerAgent = InstanceType<ReturnType<typeof app>>;

/** What is imported from `@cloudflare/think/workflows`, and from `perdure/workflow`. */
export type WorkflowLibrary = {
  readonly ThinkPromptAbortedError: typeof ThinkPromptAbortedError;
  readonly ThinkPromptError: typeof ThinkPromptError;
  readonly ThinkPromptSkippedError: typeof ThinkPromptSkippedError;
  readonly ThinkPromptTimeoutError: typeof ThinkPromptTimeoutError;
  readonly ThinkPromptValidationError: typeof ThinkPromptValidationError;
};
export const builtInLibrary: WorkflowLibrary = {
  ThinkPromptAbortedError,
  ThinkPromptError,
  ThinkPromptSkippedError,
  ThinkPromptTimeoutError,
  ThinkPromptValidationError,
};
export const perdureLibrary: WorkflowLibrary = perdureWorkflow;

/** What a workflow does, by its id. It has to do the same on each of its runs. */
export type WorkflowBody = (
  step: ThinkWorkflowStep,
  run: {
    agent: PeerAgent;
    payload: unknown;
    reportProgress: (progress: DefaultProgress) => Promise<void>;
  },
) => Promise<unknown>;
export const workflowBodies = new Map<string, WorkflowBody>();

function workflowOf(Base: typeof ThinkWorkflow<PeerAgent, unknown>) {
  return class PeerWorkflow extends Base {
    override async run(event: AgentWorkflowEvent<unknown>, step: ThinkWorkflowStep) {
      const body = workflowBodies.get(event.instanceId);
      if (!body) throw new Error(`There is no body for ${event.instanceId}`);
      const { payload } = event;
      const agent = () => this.agent as unknown as PeerAgent;
      return body(step, {
        payload,
        reportProgress: (progress) => this.reportProgress(progress),
        get agent() {
          return agent();
        },
      });
    }
  };
}

export const PeerBuiltInWorkflow = workflowOf(ThinkWorkflow<PeerAgent, unknown>);
export const PeerPerdureWorkflow = workflowOf(
  perdureWorkflow.ThinkWorkflow as unknown as typeof ThinkWorkflow<PeerAgent, unknown>,
);
