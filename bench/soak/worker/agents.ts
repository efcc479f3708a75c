/** The agents of the soak: they run turns, workflows and schedules, and return the contents of their storage. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { convertToModelMessages, stepCountIs, streamText, tool } from "ai";
import { DurableAgent } from "perdure/agent";
import { agentTools } from "perdure/agent-tools";
import { DurableChatAgent } from "perdure/chat";
import { durable } from "perdure/object";
import { type Delivery, method, webhook } from "perdure/outbox";
import { schedules } from "perdure/scheduler";
import type { SubmissionInspection, SubmitMessagesResult } from "perdure/submissions";
import { DurableThink, defineScheduledTasks } from "perdure/think";
import { z } from "zod";
import { ask } from "../../../src/testing/scripted-model.ts";
import { type Ask, type HookEvent, isDisturbed, type Look, type Plan } from "../words.ts";
import { lookAt } from "./look.ts";
import { acceptedMalformed } from "./malformed.ts";
import { calls, SoakModel, type SoakScript, soakAsk } from "./model.ts";

export interface Env extends Cloudflare.Env {
  SoakThink: DurableObjectNamespace<SoakApp>;
  SoakAgent: DurableObjectNamespace<SoakApp>;
  SoakChat: DurableObjectNamespace<SoakApp>;
  SoakObject: DurableObjectNamespace<SoakApp>;
  SOAK: Workflow;
  /** The URL of the receiver. */
  RECEIVER: string;
  HOOK_SECRET: string;
}

/** More attempts than a soak can use: every turn that ends with an error is a finding. */
export const ATTEMPTS = 100;
/** How long a tool runs after its effect, so that kills interrupt it. */
const TOOL_MS = [0, 300, 1_500] as const;
/** How often a delivery crashes its agent before it succeeds. */
const BOOMS = 2;
/** The share of ends of a disturbed agent whose hook never returns. */
const HANGS = 20;
/** A short backoff: the receiver fails sometimes, and the soak cannot wait an hour. */
const BACKOFF = { base: 500, cap: "5 seconds" } as const;

/** The methods of all agents, whatever they are built on. */
export type SoakApp = InstanceType<ReturnType<typeof soaking>>;

/** The hook of some ends of a disturbed agent, which never returns. */
function hangsAfter(agent: string, { status, createdAt }: SubmissionInspection) {
  const hangs =
    isDisturbed(agent) && status === "completed" && new Date(createdAt).getTime() % HANGS === 0;
  return hangs ? new Promise<void>(() => {}) : undefined;
}

/** The same app on another host. */
function soaking(host: abstract new (...args: never[]) => object) {
  // The app uses only what all hosts have. Think's own hooks are never called on the others.
  return class extends (host as typeof DurableThink)<Env> {
    static override readonly features = [schedules(), agentTools()];

    constructor(ctx: DurableObjectState, env: Env) {
      super(ctx, env, {
        // Outages of a provider are not under test here.
        outbox: { allowPrivateAddresses: true, policy: { backoff: BACKOFF } },
      });
    }

    /** Think ends a turn after five interruptions by default, which the kills can exceed. */
    override chatRecovery = { maxInterruptedAttempts: ATTEMPTS };

    override getModel() {
      return new SoakModel();
    }

    override getTools() {
      return {
        effect: tool({
          description: "Has an effect that is known by its key.",
          inputSchema: z.object({ key: z.string() }),
          execute: async ({ key }) => {
            await tell(this.env, "effects", { key });
            const [least = 0] = crypto.getRandomValues(new Uint8Array(1));
            await scheduler.wait(TOOL_MS[least % TOOL_MS.length] ?? 0);
            return "done";
          },
        }),
        bomb: tool({
          description: "Has an effect, and kills its agent.",
          inputSchema: z.object({ key: z.string() }),
          execute: async ({ key }) => {
            await tell(this.env, "effects", { key });
            this.ctx.abort("a tool has killed its agent");
            return "never";
          },
        }),
      };
    }

    protected override onSubmissionStatus(submission: SubmissionInspection) {
      return hangsAfter(this.name, submission);
    }

    /** Crashes its agent twice, then accepts the delivery. */
    async boom({ id }: Delivery<unknown>): Promise<void> {
      const times = (await this.ctx.storage.get<number>(`boom ${id}`)) ?? 0;
      if (times >= BOOMS) return;
      await this.ctx.storage.put(`boom ${id}`, times + 1);
      await this.ctx.storage.sync();
      this.ctx.abort("a delivery has killed its agent");
    }

    override getDefaultTimezone(): string {
      return "UTC";
    }

    override getScheduledTasks() {
      return defineScheduledTasks({
        tick: {
          schedule: "cron */10 * * * * *",
          catchUp: "all",
          overlap: "queue",
          retry: { maxAttempts: ATTEMPTS },
          handler: ({ taskId: task, scheduledFor: occurrence, idempotencyKey: key }) => {
            const event: HookEvent = {
              type: "occurrence",
              agent: this.name,
              task,
              occurrence,
              key,
            };
            // May be called more than once; the id deduplicates.
            this.outbox.put(this.#hook, event, { id: key });
          },
        },
        think: {
          schedule: "cron */20 * * * * *",
          catchUp: "all",
          overlap: "queue",
          retry: { maxAttempts: ATTEMPTS },
          prompt: () => ask({ text: `${this.name} thinks`, delayMs: 100 }),
        },
      });
    }

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

    async submit({
      key,
      thread,
      delayMs,
      effects,
      hasBomb,
      hasBoom,
      refusedUntil,
      notBefore,
    }: Ask) {
      const tools = calls(effects, hasBomb ? "bomb" : "effect");
      const script: SoakScript = { text: key, delayMs, refusedUntil, ...tools };
      const parts = [{ type: "text" as const, text: soakAsk(script) }];
      const { submissionId }: SubmitMessagesResult = await this.submitMessages(
        [{ id: key, role: "user", parts }],
        {
          idempotencyKey: key,
          thread,
          notify: hasBoom ? [this.#hook, method("boom")] : [this.#hook],
          retry: { maxAttempts: ATTEMPTS },
          ...(notBefore !== undefined && { notBefore: new Date(notBefore) }),
        },
      );
      return submissionId;
    }

    async cancel(submissionId: string): Promise<string> {
      return (await this.cancelSubmission(submissionId, "the soak has changed its mind")).outcome;
    }

    /** Grants all pending approvals, and returns their number. */
    async grantAll(): Promise<number> {
      const { items: waiting } = await this.approvals.list();
      for (const { approvalId } of waiting) {
        await this.approvals.grant(approvalId, { payload: { amount: 1 }, by: "ada" });
      }
      return waiting.length;
    }

    async clearMain(): Promise<string> {
      await this.clearMessages();
      return "cleared";
    }

    async clearSide(): Promise<string> {
      await this.clearThread("side");
      return "cleared";
    }

    /** An Agent has no queue of its own that could be reset. */
    async reset(): Promise<void> {
      if ("resetTurnState" in this) this.resetTurnState();
    }

    /** The options that accept an unpaired surrogate. */
    submitMalformed(): Promise<string[]> {
      return acceptedMalformed(this);
    }

    async pauseTasks(): Promise<void> {
      for (const { taskId } of (await this.schedules.list()).items) {
        await this.schedules.pause(taskId, "the soak is over");
      }
    }

    async look(): Promise<Look> {
      return lookAt(this, this.ctx.storage);
    }

    get #hook() {
      return webhook(`${this.env.RECEIVER}/hooks`, { secret: "HOOK_SECRET" });
    }
  };
}

/** A plain Durable Object, which asks the class that extends it for its tools and tasks. */
class PlainObject extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    outbox: { allowPrivateAddresses: true, policy: { backoff: BACKOFF } },
    model: () => new SoakModel(),
    tools: () => this.#app.getTools(),
    features: [schedules()],
    onSubmissionStatus: (submission) => hangsAfter(this.name, submission),
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

  get #app(): SoakApp {
    return this as unknown as SoakApp;
  }
}

export class SoakObject extends soaking(PlainObject) {}
export class SoakThink extends soaking(DurableThink) {}
export class SoakAgent extends soaking(DurableAgent) {}
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

/** @throws Error unless the receiver accepts it */
export async function tell(env: Env, path: string, body: object): Promise<void> {
  const response = await fetch(`${env.RECEIVER}/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`The receiver answered ${response.status}`);
  await response.body?.cancel();
}
