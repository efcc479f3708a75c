/** The agents of the soak: they take turns, run workflows, keep schedules, and show what they have in storage. */

import { tool } from "ai";
import { type Delivery, method, webhook } from "perdure/outbox";
import type { SubmissionInspection, SubmitMessagesResult } from "perdure/submissions";
import { DurableThink, defineScheduledTasks } from "perdure/think";
import { z } from "zod";
import { ask } from "../../../src/testing/scripted-model.ts";
import { type Ask, type HookEvent, isDisturbed, type Look, type Plan } from "../words.ts";
import { lookAt } from "./look.ts";
import { acceptedMalformed } from "./malformed.ts";
import { calls, SoakModel, type SoakScript, soakAsk } from "./model.ts";

export interface Env extends Cloudflare.Env {
  SoakAgent: DurableObjectNamespace<SoakAgent>;
  SOAK: Workflow;
  /** Where the receiver is. */
  RECEIVER: string;
  HOOK_SECRET: string;
}

/** More than a soak can use up: what a kill ends is tried again, and a turn that gives up is worth a look. */
export const ATTEMPTS = 100;
/** How long a tool works after its effect, so that kills find it at work. */
const TOOL_MS = [0, 300, 1_500] as const;
/** How often a delivery kills its agent before it succeeds. */
const BOOMS = 2;
/** Of the ends that a disturbed agent is told of, those whose hook never returns. */
const HANGS = 20;
/** The receiver fails now and then, and the soak does not wait an hour for the next attempt. */
const BACKOFF = { base: 500, cap: "5 seconds" } as const;

export class SoakAgent extends DurableThink<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, {
      // A provider that is down for a minute is not what is looked at.
      outbox: { allowPrivateAddresses: true, policy: { backoff: BACKOFF } },
    });
  }

  /** Think gives up a turn after five interruptions by default, which kills and bombs come to. */
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

  protected override onSubmissionStatus({ status, createdAt }: SubmissionInspection) {
    const hangs =
      isDisturbed(this.name) &&
      status === "completed" &&
      new Date(createdAt).getTime() % HANGS === 0;
    return hangs ? new Promise<void>(() => {}) : undefined;
  }

  /** Kills its agent twice, and takes the delivery then. */
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
        handler: ({ taskId: task, scheduledFor: slot, idempotencyKey: key }) => {
          const event: HookEvent = { type: "slot", agent: this.name, task, slot, key };
          // Called at least once: the id makes one event of all calls.
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

  /** Starts a workflow. Asked for again, it is the same one. */
  async begin(plan: Plan): Promise<string> {
    const isLost = await this.env.SOAK.get(plan.id).then(
      async (instance) => (await instance.status()).status === "unknown",
      (error: unknown) => {
        if (String(error).includes("not_found")) return true;
        throw error;
      },
    );
    // The local engine may be killed before it has written to disk an instance that it has created, and that is tracked.
    if (isLost) this.deleteWorkflow(plan.id);
    return this.runWorkflow("SOAK", plan, { id: plan.id, ifExists: "return" });
  }

  async submit({ key, thread, delayMs, effects, hasBomb, hasBoom, refusedUntil, notBefore }: Ask) {
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

  /** Grants what waits for a person. Returns how many those were. */
  async grantAll(): Promise<number> {
    const waiting = await this.listApprovals();
    for (const { approvalId } of waiting) {
      await this.grantApproval(approvalId, { payload: { amount: 1 }, by: "ada" });
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

  async reset(): Promise<void> {
    this.resetTurnState();
  }

  /** Names of the options that take half of a surrogate pair. */
  submitMalformed(): Promise<string[]> {
    return acceptedMalformed(this);
  }

  async pauseTasks(): Promise<void> {
    for (const { taskId } of await this.listScheduledTasks()) {
      await this.pauseScheduledTask(taskId, "the soak is over");
    }
  }

  async look(): Promise<Look> {
    return lookAt(this, this.ctx.storage);
  }

  get #hook() {
    return webhook(`${this.env.RECEIVER}/hooks`, { secret: "HOOK_SECRET" });
  }
}

/** Works for the other agents' workflows, in a conversation of its own for each run. */
export class Helper extends DurableThink<Env> {
  override getModel() {
    return new SoakModel();
  }
}

/** @throws Error unless the receiver takes it */
export async function tell(env: Env, path: string, body: object): Promise<void> {
  const response = await fetch(`${env.RECEIVER}/${path}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`The receiver answered ${response.status}`);
  await response.body?.cancel();
}
