/** A DurableThink with a scripted model and a meter, and the few verbs that tests call on it. */

import {
  type ChatRecoveryConfig,
  type ChatRecoveryContext,
  Think,
  type ThinkScheduledTasks,
  type TurnConfig,
  type TurnContext,
} from "@cloudflare/think";
import type { Connection } from "agents";
import type { TaskStep } from "agents/tasks";
import type { WorkflowCallback } from "agents/workflows";
import { tool, type UIMessage } from "ai";
import { z } from "zod";
import type { Json } from "../../src/core/json.ts";
import {
  type InstalledInbound,
  type LinkSettings,
  type Links,
  signedLinks,
} from "../../src/features/inbound/index.ts";
import type { WaitedArrival } from "../../src/features/inbound/protocol.ts";
import { capabilitiesOf } from "../../src/hosts/public.ts";
import type { DurableThinkOptions } from "../../src/hosts/think/durable-think.ts";
import {
  type Approval,
  DurableThink,
  type Feature,
  type Problem,
  type SubmissionAudience,
} from "../../src/hosts/think/index.ts";
import { CAPABILITIES } from "../../src/hosts/verbs.ts";
import type { DeadLetter } from "../../src/outbox/index.ts";
import type { SubmissionInspection } from "../../src/submissions/types.ts";
import { Meter, metered, type ScriptedModel } from "../../src/testing/index.ts";
import { ALL, LINKS } from "./features.ts";
import { HeldModel } from "./held-model.ts";

/** Hooks of the app, which a test can set by the agent's name. */
export type AppHooks = {
  beforeTurn?: (ctx: TurnContext) => TurnConfig | undefined;
  onStatus?: (submission: SubmissionInspection, agent: ThinkAgent) => Promise<void>;
  onTool?: (agent: ThinkAgent) => Promise<void>;
  onProblem?: (problem: Problem) => void;
  chatRecovery?: ChatRecoveryConfig;
  /** The messages of a workflow to its agent. */
  onCallback?: (callback: WorkflowCallback) => void;
  onApproval?: (approval: Approval, agent: ThinkAgent) => void | Promise<void>;
  shouldSendApproval?: (approval: Approval, connection: Connection) => boolean;
  shouldSendSubmission?: (
    submission: SubmissionInspection,
    connection: Connection,
  ) => SubmissionAudience;
  /** Before a workflow is handed a part of an answer. */
  onRead?: (part: number, agent: ThinkAgent) => void;
};

/** Names of agents whose events never reach a workflow. */
export const cutOff = new Set<string>();

/** What `create()` of a Workflow does when the agent with that name calls it. */
export const creating = new Map<
  string,
  (create: () => Promise<WorkflowInstance>) => Promise<WorkflowInstance>
>();

/** The bindings, with a Workflow that cannot be reached while the agent is cut off. */
function reachable(env: Cloudflare.Env, name: string | undefined): Cloudflare.Env {
  return new Proxy(env, {
    get(target, key) {
      if (String(key).endsWith("_WORKFLOW") && name !== undefined && cutOff.has(name)) {
        const fail = async () => Promise.reject(new Error("Workflows cannot be reached"));
        return { get: fail, createBatch: fail };
      }
      const binding: unknown = Reflect.get(target, key);
      const hook = creating.get(name ?? "");
      if (!hook || key !== "SCRIPTED_WORKFLOW") return binding;
      const { create, get } = binding as Workflow;
      return {
        createBatch: () => {},
        get: get.bind(binding),
        create: (options: WorkflowInstanceCreateOptions) =>
          hook(() => create.call(binding, options)),
      };
    },
  });
}

/** How often an account was charged, over all agents and restarts. */
export const charges = new Map<string, number>();

/** Options of an agent, and the time limit of its status hook, which is no option. */
export type ThinkTestOptions = DurableThinkOptions & { readonly hookTimeoutMs?: number };
/** By the agent's name. */
export const thinkOptions = new Map<string, ThinkTestOptions>();

export const appHooks = new Map<string, AppHooks>();

/** What the agent with that name declares. */
export type Declared = {
  tasks: (agent: ThinkAgent) => ThinkScheduledTasks | Promise<ThinkScheduledTasks>;
  scope?: "root" | "all";
  /** The app's own start. */
  onStart?: (agent: ThinkAgent) => void | Promise<void>;
  onError?: (error: unknown) => void;
};
export const declared = new Map<string, Declared>();

/** The latest dead letter that the agent with that name was notified of. */
export const deadLetters = new Map<string, DeadLetter>();

/** What is done to the agent with that name when it has been made, by Think or by Perdure. */
export const made = new Map<string, (agent: Think<Cloudflare.Env>) => void>();

/** In place of {@link LINKS}, by the name of the agent. */
export const linkSettings = new Map<string, LinkSettings>();

const ownLinks: Feature<"signedLinks", Links> = {
  feature: "signedLinks",
  install: (kernel) => {
    const settings = namesOf(kernel.agent.ctx).map((name) => linkSettings.get(name));
    return signedLinks(settings.find(Boolean) ?? LINKS).install(kernel);
  },
};

/** In the id of a sub-agent its name is one part. */
const namesOf = ({ id: { name = "" } }: DurableObjectState) => [name, name.split(":")[2] ?? ""];

export class ThinkAgent extends DurableThink<Cloudflare.Env> {
  static override readonly features = [
    ...ALL.filter(({ feature }) => feature !== "signedLinks"),
    ownLinks,
  ];
  readonly meter: Meter;
  override readonly taskDefinitions = {
    nap: async (_input: unknown, step: TaskStep) => step.sleep("nap", "1 hour"),
  };

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    const names = namesOf(ctx);
    const { hookTimeoutMs, ...options } =
      names.map((name) => thinkOptions.get(name)).find(Boolean) ?? {};
    super(metered(ctx, meter), reachable(env, ctx.id.name), options);
    if (hookTimeoutMs !== undefined)
      this[CAPABILITIES].submissions.limits.hookTimeoutMs = hookTimeoutMs;
    this.meter = meter;
    this.chatRecovery = names.map((name) => appHooks.get(name)?.chatRecovery).find(Boolean) ?? true;
    made.get(ctx.id.name ?? "")?.(this);
  }

  async startLongTask(): Promise<void> {
    await this.tasks.run("nap", {});
  }

  /** Names of the tasks that have not ended. */
  async openTasks(): Promise<string[]> {
    const open = await this.tasks.list({ status: ["pending", "running", "waiting"] });
    return open.map(({ definition }) => definition);
  }

  override getModel(): ScriptedModel {
    return new HeldModel();
  }

  override resolveModel(model: ReturnType<ThinkAgent["getModel"]> | string = this.getModel()) {
    return typeof model === "string" ? new HeldModel(undefined, model) : model;
  }

  override async onStart(): Promise<void> {
    await declared.get(this.name)?.onStart?.(this);
  }

  override getDefaultTimezone(): string {
    return "Europe/London";
  }

  override getScheduledTasks() {
    return declared.get(this.name)?.tasks(this) ?? {};
  }

  override getScheduledTasksScope() {
    return declared.get(this.name)?.scope ?? "root";
  }

  override onError(first: unknown, error?: unknown): void {
    declared.get(this.name)?.onError?.(error ?? first);
  }

  /** The tasks of a sub-agent, as it has them. */
  async tasksOfChild(name: string) {
    const child = await this.subAgent(ThinkAgent, name);
    const { items } = await capabilitiesOf(child).schedules.list();
    return items;
  }

  /** A destination that takes nothing. */
  onEnd(): void {
    throw new Error("not today");
  }

  /** A destination whose object crashes at the first delivery. */
  async onFatal(): Promise<void> {
    if (!(await this.ctx.storage.get("died of a delivery"))) {
      await this.ctx.storage.put("died of a delivery", true);
      await this.ctx.storage.sync();
      this.die();
    }
  }

  protected override onDeadLetter(letter: DeadLetter): void {
    deadLetters.set(this.name, letter);
  }

  override getTools() {
    return {
      charge: tool({
        description: "Has an effect that must not happen twice.",
        inputSchema: z.object({ account: z.string() }),
        execute: async ({ account }) => {
          await appHooks.get(this.name)?.onTool?.(this);
          // The platform lets nothing out of the object before what it wrote is stored; the map is out of it, too.
          await this.ctx.storage.sync();
          charges.set(account, (charges.get(account) ?? 0) + 1);
          return { charged: account };
        },
      }),
    };
  }

  override beforeTurn(ctx: TurnContext): TurnConfig | undefined {
    return appHooks.get(this.name)?.beforeTurn?.(ctx);
  }

  protected override onProblem(problem: Problem): void | Promise<void> {
    const hook = appHooks.get(this.name)?.onProblem;
    return hook ? hook(problem) : super.onProblem(problem);
  }

  protected override async onSubmissionStatus(submission: SubmissionInspection): Promise<void> {
    await appHooks.get(this.name)?.onStatus?.(submission, this);
  }

  protected override shouldSendApproval(approval: Approval, connection: Connection): boolean {
    const hook = appHooks.get(this.name)?.shouldSendApproval;
    return hook ? hook(approval, connection) : super.shouldSendApproval(approval, connection);
  }

  protected override shouldSendSubmission(
    submission: SubmissionInspection,
    connection: Connection,
  ): SubmissionAudience {
    const hook = appHooks.get(this.name)?.shouldSendSubmission;
    return hook ? hook(submission, connection) : super.shouldSendSubmission(submission, connection);
  }

  protected override onApproval(approval: Approval): void | Promise<void> {
    return appHooks.get(this.name)?.onApproval?.(approval, this);
  }

  async submitTurn(text: string) {
    return this.runTurn({ mode: "submit", input: text });
  }

  protected override async onChatRecovery(_ctx: ChatRecoveryContext) {
    return {};
  }

  override async callKernel(name: string, ...args: unknown[]) {
    if (name === "readWait") appHooks.get(this.name)?.onRead?.(args[1] as number, this);
    return super.callKernel(name, ...args);
  }

  /** Ends what waits for an arrival, as its acceptance does. Returns the ids of the waits. */
  deliver(arrival: WaitedArrival): string[] {
    const { stepWaits } = this[CAPABILITIES].features.get(
      "inbound",
      "deliver()",
    ) as InstalledInbound;
    return this.ctx.storage.transactionSync(() =>
      stepWaits.match(arrival).map(({ waitId }) => waitId),
    );
  }

  /** Of the waits for arrivals, newest first. */
  async webhookStatuses(): Promise<string[]> {
    const { items: waits } = await this[CAPABILITIES].waits.list({ kind: "webhook", limit: 100 });
    return waits.map(({ status }) => status);
  }

  /** The object crashes. */
  die(): void {
    this.ctx.abort("crash");
  }

  async startPrompts(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("PROMPT_WORKFLOW", params, { id });
  }

  /** As a Think agent does. */
  async startPlainly(id: string, params: unknown): Promise<string> {
    return Think.prototype.runWorkflow.call(this, "PROMPT_WORKFLOW", params, { id });
  }

  override async onWorkflowCallback(callback: WorkflowCallback): Promise<void> {
    appHooks.get(this.name)?.onCallback?.(callback);
    await super.onWorkflowCallback(callback);
  }

  override initialState = { from: "the start" };

  async currentState(): Promise<Json> {
    return this.state as Json;
  }

  async approve(id: string, metadata: Record<string, string>): Promise<void> {
    await this.approveWorkflow(id, { metadata });
  }

  async disapprove(id: string, reason: string): Promise<void> {
    await this.rejectWorkflow(id, { reason });
  }

  async tell(id: string, event: { type: string; payload: Json }): Promise<void> {
    await this.sendWorkflowEvent("SCRIPTED_WORKFLOW", id, event);
  }

  async pause(id: string): Promise<void> {
    await this.pauseWorkflow(id);
  }

  async resume(id: string): Promise<void> {
    await this.resumeWorkflow(id);
  }

  async startScripted(id: string, options: object = {}): Promise<string> {
    return this.runWorkflow("SCRIPTED_WORKFLOW", {}, { id, ...options });
  }

  /** Starts two Workflows with one id at once. The first one gets it. */
  async startTwoWithOneId(id: string): Promise<void> {
    const options = { id, ifExists: "return" } as const;
    const [first, second] = await Promise.allSettled([
      this.startScripted(id, options),
      this.runWorkflow("APPROVAL_WORKFLOW", {}, options),
    ]);
    if (first.status === "rejected") throw first.reason;
    if (second.status === "fulfilled") throw new Error("The second Workflow has the id, too");
  }

  async trackedWorkflows(): Promise<{ workflowId: string; status: string }[]> {
    return this.getWorkflows().workflows.map(({ workflowId, status }) => ({ workflowId, status }));
  }

  /** Stores an order and starts its workflow, both or none; an order that is there already starts nothing. */
  async orderScripted(id: string): Promise<void> {
    this.ctx.storage.transactionSync(() => {
      this.sql`CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)`;
      const isNew = this.sql`INSERT OR IGNORE INTO orders VALUES (${id}) RETURNING id`;
      // A crash takes the promise with it.
      if (isNew.length > 0) void this.runWorkflow("SCRIPTED_WORKFLOW", {}, { id });
    });
  }

  /** What a sub-agent has in its ledger, which wakes it. */
  async statusesOfChild(name: string): Promise<string[]> {
    const child = await this.subAgent(ThinkAgent, name);
    return (await child.listSubmissions()).map(({ status }) => status);
  }

  /** What a sub-agent tracks of a workflow. */
  async workflowOfChild(name: string, id: string): Promise<string | undefined> {
    const child = await this.subAgent(ThinkAgent, name);
    const [found] = (await capabilitiesOf(child).operations.listWorkflows()).items;
    return found?.workflowId === id ? found.status : undefined;
  }

  async tasksOfGrandchild(name: string, its: string) {
    const child = await this.subAgent(ThinkAgent, name);
    return child.tasksOfChild(its);
  }

  async deleteGrandchild(name: string, its: string): Promise<void> {
    const child = await this.subAgent(ThinkAgent, name);
    await child.deleteChild(its, "dynamicAgents");
  }

  /** A sub-agent is there no more, in one of the ways to delete it. */
  async deleteChild(name: string, by: "dynamicAgents" | "deleteSubAgent" | "destroy") {
    if (by === "dynamicAgents") return this.dynamicAgents.delete(ThinkAgent, name);
    if (by === "deleteSubAgent") return this.deleteSubAgent(ThinkAgent, name);
    const child = await this.subAgent(ThinkAgent, name);
    // It does not survive the call.
    await child.leave().catch(() => {});
  }

  async leave(): Promise<void> {
    await this.destroy();
  }

  async abortChild(name: string): Promise<void> {
    this.abortSubAgent(ThinkAgent, name, new Error("stop"));
  }

  async submitToChild(name: string, message: UIMessage, submissionId: string): Promise<void> {
    const child = await this.subAgent(ThinkAgent, name);
    await child.submitMessages([message], { submissionId });
  }

  async startScriptedOfChild(name: string, id: string): Promise<string> {
    const child = await this.subAgent(ThinkAgent, name);
    return child.startScripted(id);
  }

  async startPromptAll(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("PROMPT_ALL_WORKFLOW", params, { id });
  }

  async restart(id: string): Promise<void> {
    await this.restartWorkflow(id);
  }

  async terminate(id: string): Promise<void> {
    await this.terminateWorkflow(id);
  }

  async resetTurns(): Promise<void> {
    this.resetTurnState();
  }

  /** The same; being no async method, it does not wait for the start of its object. */
  resetAtOnce(): void {
    this.resetTurnState();
  }

  /** Lets a sub-agent run a turn, and returns how it ended there. */
  async delegate(text: string) {
    const child = await this.subAgent(ThinkAgent, "child");
    const message = {
      id: crypto.randomUUID(),
      role: "user",
      parts: [{ type: "text", text }],
    } as const;
    const { submissionId } = await child.submitMessages([
      { ...message, parts: [...message.parts] },
    ]);
    return child.waitForSubmission(submissionId);
  }

  async lastMessage(): Promise<{ id: string | undefined; role: string | undefined }> {
    const last = (await this.getMessages()).at(-1);
    return { id: last?.id, role: last?.role };
  }

  async texts(): Promise<string[]> {
    const messages = await this.getMessages();
    return messages.map(
      ({ role, parts }) =>
        `${role}: ${parts.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("")}`,
    );
  }
}
