/** The agents of the soak: every verb of the mix on each host. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { convertToModelMessages, stepCountIs, streamText, tool, type UIMessage } from "ai";
import { DurableAgent } from "perdure/agent";
import { agentTools } from "perdure/agent-tools";
import { DurableChatAgent } from "perdure/chat";
import { deployments } from "perdure/deploy";
import { inbound } from "perdure/inbound";
import { durable } from "perdure/object";
import { operations } from "perdure/operator";
import { type Delivery, method, UndeliverableError, webhook } from "perdure/outbox";
import { schedules } from "perdure/scheduler";
import { followers } from "perdure/streams";
import {
  jsonSchemaOf,
  type SubmissionInspection,
  type SubmitMessagesOptions,
} from "perdure/submissions";
import { ask } from "perdure/testing";
import { DurableThink, defineScheduledTasks, durableTool } from "perdure/think";
import { z } from "zod";
import {
  type Accepted,
  type Ask,
  BEAT,
  type HookEvent,
  isDisturbed,
  isNested,
  type Look,
  type Plan,
  type Put,
  type ToolStep,
} from "../words.ts";
import { lookAt } from "./look.ts";
import { acceptedMalformed } from "./malformed.ts";
import { SoakModel, toMessage } from "./model.ts";
import { type Env, tell } from "./tell.ts";

/** More attempts than a soak can use: every turn that ends with an error is a finding. */
export const ATTEMPTS = 100;
/** How long a tool runs after its effect, so that kills interrupt it. */
const TOOL_MS = [0, 300, 1_500] as const;
/** How often a delivery crashes its agent before it succeeds. */
const BOOMS = 2;
/** The share of ends of a disturbed agent whose hook never returns. */
const HANGS = 20;
/** A short backoff: the receiver fails sometimes, and the soak cannot wait an hour. */
const OUTBOX = {
  allowPrivateAddresses: true,
  keepDelivered: {},
  policy: { backoff: { base: 500, cap: "5 seconds" } },
} as const;
const OUTPUT = jsonSchemaOf(z.object({ said: z.string() }));
const TASK = { catchUp: "all", overlap: "queue", retry: { maxAttempts: ATTEMPTS } } as const;

/** Features of every host. */
const FEATURES = [
  schedules(),
  inbound(),
  followers(),
  operations(),
  deployments({ version: "soak" }),
] as const;

/** The methods of all agents, whatever they are built on. */
export type SoakApp = InstanceType<ReturnType<typeof soaking>>;

/** The hook of some ends of a disturbed agent, which never returns. */
function hangAfter(agent: string, { status, createdAt }: SubmissionInspection) {
  const hangs =
    isDisturbed(agent) && status === "completed" && new Date(createdAt).getTime() % HANGS === 0;
  return hangs ? new Promise<void>(() => {}) : undefined;
}

async function pauseInTool(): Promise<void> {
  const [least = 0] = crypto.getRandomValues(new Uint8Array(1));
  await scheduler.wait(TOOL_MS[least % TOOL_MS.length] ?? 0);
}

/** Tools whose effects the receiver counts. */
function toolsOf(env: Env, crash: () => void) {
  const inputSchema = z.object({ key: z.string() });
  return {
    effect: tool({
      description: "Has an effect that is known by its key.",
      inputSchema,
      execute: async ({ key }) => {
        await tell(env, "effects", { key });
        await pauseInTool();
        return `done ${crypto.randomUUID()}`;
      },
    }),
    charge: durableTool({
      name: "charge",
      description: "Has two effects, in durable steps.",
      inputSchema,
      async execute({ key }, { step }) {
        const report = (done: ToolStep) => tell(env, "steps", done);
        const token = await step.do("take", async ({ idempotencyKey }) => {
          const drawn = crypto.randomUUID();
          await report({ key, step: "take", idempotencyKey, token: drawn });
          await pauseInTool();
          return drawn;
        });
        await step.do("note", async ({ idempotencyKey }) => {
          await report({ key, step: "note", idempotencyKey, token });
          await pauseInTool();
        });
        return `charged ${token}`;
      },
    }),
    bomb: tool({
      description: "Has an effect, and kills its agent.",
      inputSchema,
      execute: async ({ key }) => {
        await tell(env, "effects", { key });
        crash();
        return "never";
      },
    }),
  };
}

/** The message of a submission and its options, for a destination that is notified. */
export function toSubmission(ask: Ask, notify: NonNullable<SubmitMessagesOptions["notify"]>) {
  const parts = [{ type: "text" as const, text: toMessage(ask) }];
  const messages: UIMessage[] = [{ id: ask.key, role: "user", parts }];
  const options: SubmitMessagesOptions = {
    thread: ask.thread,
    whenBusy: ask.whenBusy,
    notify,
    retry: { maxAttempts: ATTEMPTS },
    ...(ask.hasOutput && { output: OUTPUT }),
    ...(ask.notBefore !== undefined && { notBefore: new Date(ask.notBefore) }),
    ...(ask.expiresInMs !== undefined && { expiresIn: ask.expiresInMs }),
  };
  return { messages, options };
}

export const hookOf = ({ RECEIVER }: Env) =>
  webhook(`${RECEIVER}/hooks`, { secret: "HOOK_SECRET" });

/** The same app on another host. */
function soaking(host: abstract new (...args: never[]) => object) {
  // The app uses only what all hosts have. Think's own hooks are never called on the others.
  return class extends (host as typeof DurableThink)<Env> {
    static override readonly features = [...FEATURES, agentTools()];

    constructor(ctx: DurableObjectState, env: Env) {
      super(ctx, env, { outbox: OUTBOX });
    }

    /** Think ends a turn after five interruptions by default, which the kills can exceed. */
    override chatRecovery = { maxInterruptedAttempts: ATTEMPTS };

    override getModel() {
      return new SoakModel();
    }

    override getTools() {
      return toolsOf(this.env, () => this.ctx.abort("a tool has killed its agent"));
    }

    protected override onSubmissionStatus(submission: SubmissionInspection) {
      return hangAfter(this.name, submission);
    }

    override getDefaultTimezone(): string {
      return "UTC";
    }

    override getScheduledTasks() {
      // A nested agent has the name of its root, and the receiver could not tell their occurrences apart.
      if (isNested(this.name)) return {};
      const handler = (task: string) => ({
        ...TASK,
        handler: ({
          scheduledFor: occurrence,
          idempotencyKey: key,
          cause,
        }: {
          scheduledFor: number;
          idempotencyKey: string;
          cause: string;
        }) => {
          const { name: agent } = this;
          const event: HookEvent = { type: "occurrence", agent, task, occurrence, cause, key };
          // May be called more than once; the id deduplicates.
          this.outbox.put(hookOf(this.env), event, { id: key });
        },
      });
      return defineScheduledTasks({
        tick: { schedule: "cron */10 * * * * *", ...handler("tick") },
        [BEAT]: { schedule: "cron */5 * * * * *", ...handler(BEAT) },
        think: {
          schedule: "cron */20 * * * * *",
          ...TASK,
          prompt: () => ask({ text: `${this.name} thinks`, delayMs: 100 }),
        },
      });
    }

    // Submissions

    async submit(ask: Ask): Promise<Accepted> {
      const { messages, options } = this.#request(ask);
      try {
        const { submissionId, accepted, conflict } = await this.submitMessages(messages, options);
        return { submissionId, accepted, conflict: conflict === true };
      } catch (error) {
        if ((error as Error).name === "BusyError") return { refused: "BusyError" };
        throw error;
      }
    }

    async submitAll(asks: readonly Ask[]): Promise<Accepted[]> {
      const results = await this.submitMany(asks.map((ask) => this.#request(ask)));
      return results.map(({ submissionId, accepted, conflict }) => {
        return { submissionId, accepted, conflict: conflict === true };
      });
    }

    /** `submitMany()` whose last submission is invalid. Returns the name of the error. */
    async submitInvalid(asks: readonly Ask[]): Promise<string> {
      const requests = asks.map((ask) => this.#request(ask));
      try {
        await this.submitMany([...requests, { messages: [], options: { thread: "main" } }]);
        return "none";
      } catch (error) {
        return (error as Error).name;
      }
    }

    async cancel(submissionId: string): Promise<string> {
      return (await this.cancelSubmission(submissionId, "the soak has changed its mind")).outcome;
    }

    async retryEnded(submissionId: string): Promise<string | null> {
      return (await this.retrySubmission(submissionId))?.submissionId ?? null;
    }

    async remove(submissionId: string): Promise<boolean> {
      return this.deleteSubmission(submissionId);
    }

    #request(ask: Ask) {
      const hook = hookOf(this.env);
      const notify = ask.hasBoom ? [hook, method("boom")] : hook;
      const { messages, options } = toSubmission(ask, notify);
      return { messages, options: { ...options, idempotencyKey: ask.key } };
    }

    // Threads

    async clearMain(): Promise<string> {
      await this.clearMessages();
      return "cleared";
    }

    async clearSide(): Promise<string> {
      await this.clearThread("side");
      return "cleared";
    }

    /** Only Think has a queue of its own that can be reset. */
    async reset(): Promise<void> {
      if ("resetTurnState" in this) this.resetTurnState();
    }

    // Workflows

    /** Starts a workflow, once for each id. */
    async begin(plan: Plan): Promise<string> {
      const isLost = await this.env.SOAK.get(plan.id).then(
        async (instance) => (await instance.status()).status === "unknown",
        (error: unknown) => {
          if (String(error).includes("not_found")) return true;
          throw error;
        },
      );
      // A kill can lose an instance that the local engine created but did not write to disk.
      if (isLost) this.deleteWorkflow(plan.id);
      return this.runWorkflow("SOAK", plan, { id: plan.id, ifExists: "return" });
    }

    /** Grants all pending approvals, and returns their number. */
    async grantAll(): Promise<number> {
      const { items: waiting } = await this.approvals.list();
      for (const { approvalId } of waiting) {
        await this.approvals.grant(approvalId, { payload: { amount: 1 }, by: "ada" });
      }
      return waiting.length;
    }

    // Outbox

    async putEvent({ id, to }: Put): Promise<string> {
      const destination = to === "webhook" ? hookOf(this.env) : method(to);
      const event: HookEvent = { type: "put", key: id };
      return this.outbox.put(destination, event, { id });
    }

    async accept({ id, event }: Delivery<{ key: string }>): Promise<void> {
      await tell(this.env, "methods", { id, key: event.key });
    }

    /** Refuses the event until {@link redrive}. */
    async stubborn(delivery: Delivery<{ key: string }>): Promise<void> {
      const isMended = await this.ctx.storage.get<boolean>(`mended ${delivery.id}`);
      if (!isMended) throw new UndeliverableError("the soak has not redriven it yet");
      await this.accept(delivery);
    }

    /** Redrives a dead letter. Returns its state before, or `none`. */
    async redrive(id: string): Promise<string> {
      const found = await this.outbox.inspect(id);
      if (found?.state === "dead") {
        await this.ctx.storage.put(`mended ${id}`, true);
        await this.outbox.redrive(id);
      }
      return found?.state ?? "none";
    }

    /** Crashes its agent twice, then accepts the delivery. */
    async boom({ id }: Delivery<unknown>): Promise<void> {
      const times = (await this.ctx.storage.get<number>(`boom ${id}`)) ?? 0;
      if (times >= BOOMS) return;
      await this.ctx.storage.put(`boom ${id}`, times + 1);
      await this.ctx.storage.sync();
      this.ctx.abort("a delivery has killed its agent");
    }

    /** Returns no promise: commits with the arrival, exactly once. Its delivery has an id of its own. */
    noteArrival(key: string): void {
      const event: HookEvent = { type: "arrival", key };
      this.outbox.put(hookOf(this.env), event);
    }

    // Schedules

    async pauseTasks(): Promise<void> {
      for (const { taskId } of (await this.schedules.list()).items) {
        await this.schedules.pause(taskId, "the soak is over");
      }
    }

    async pauseBeat(): Promise<void> {
      await this.schedules.pause(BEAT);
    }

    async resumeBeat(): Promise<void> {
      await this.schedules.resume(BEAT);
    }

    async triggerBeat(key: string): Promise<string> {
      return (await this.schedules.trigger(BEAT, { key })).idempotencyKey;
    }

    async backfillBeat(range: { from: number; to: number }): Promise<number> {
      const { from, to } = range;
      return (await this.schedules.backfill(BEAT, { from, to })).queued;
    }

    async skipBeat(): Promise<number | null> {
      return this.schedules.skipNext(BEAT);
    }

    // Others

    /** Options that accept an unpaired surrogate. */
    submitMalformed(): Promise<string[]> {
      return acceptedMalformed(this);
    }

    async look(): Promise<Look> {
      return lookAt(this);
    }

    /** The one alarm of the object, which is that of the root for its sub-agents. */
    async readAlarm(): Promise<number | null> {
      return this.ctx.storage.getAlarm();
    }
  };
}

/** A plain Durable Object, which asks the class that extends it for its tools and tasks. */
class PlainObject extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    outbox: OUTBOX,
    model: () => new SoakModel(),
    tools: () => this.#app.getTools(),
    features: [...FEATURES],
    onSubmissionStatus: (submission) => hangAfter(this.name, submission),
  });

  get name(): string {
    return this.lifecycle.name;
  }

  get outbox() {
    return this.durable.outbox;
  }

  get schedules() {
    return this.durable.schedules;
  }

  get approvals() {
    return this.durable.approvals;
  }

  get #app(): SoakApp {
    return this as unknown as SoakApp;
  }
}

export class SoakObject extends soaking(PlainObject) {}
export class SoakThink extends soaking(DurableThink) {}
export class SoakAgent extends soaking(DurableAgent) {
  /** Calls a verb of the sub-agent so many levels below, which has the name of its root. */
  async nested(levels: number, verb: string, body: unknown): Promise<unknown> {
    if (levels > 0) {
      const agent = this as unknown as DurableAgent<Env>;
      const inner = await agent.subAgent(SoakAgent as never, this.name);
      return (inner as unknown as SoakAgent).nested(levels - 1, verb, body);
    }
    const verbs = this as unknown as Record<string, (body: unknown) => unknown>;
    return verbs[verb]?.(body);
  }
}
export class SoakChat extends soaking(DurableChatAgent) {
  async onChatMessage() {
    const chat = this as unknown as DurableChatAgent<Env>;
    const result = streamText(
      chat.durable({
        model: new SoakModel(),
        messages: await convertToModelMessages(chat.messages),
        tools: this.getTools(),
        stopWhen: stepCountIs(ATTEMPTS),
      }),
    );
    return result.toUIMessageStreamResponse();
  }
}

/** The child of the other agents' workflows, with one conversation for each run. */
export class Helper extends DurableThink<Env> {
  override getModel() {
    return new SoakModel();
  }
}
