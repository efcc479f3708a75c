/** The agents of the soak: they take turns, run workflows, keep schedules, and show what they have in storage. */

import { tool } from "ai";
import { webhook } from "perdure/outbox";
import type { SubmitMessagesResult } from "perdure/submissions";
import { DurableThink, defineScheduledTasks } from "perdure/think";
import { z } from "zod";
import { ask } from "../../../src/testing/scripted-model.ts";
import type { Ask, HookEvent, Look, Plan } from "../words.ts";
import { lookAt } from "./look.ts";
import { SoakModel, type SoakScript, soakAsk } from "./model.ts";

export interface Env extends Cloudflare.Env {
  SoakAgent: DurableObjectNamespace<SoakAgent>;
  SOAK: Workflow;
  /** Where the receiver is. */
  RECEIVER: string;
  HOOK_SECRET: string;
}

/** More than a soak can use up: what a kill ends is tried again, and a turn that gives up is worth a look. */
export const ATTEMPTS = 100;
/** The receiver fails now and then, and the soak does not wait an hour for the next attempt. */
const BACKOFF = { base: 500, cap: "5 seconds" } as const;

export class SoakAgent extends DurableThink<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, {
      // A provider that is down for a minute is not what is looked at.
      outbox: { allowPrivateAddresses: true, policy: { backoff: BACKOFF } },
    });
  }

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
          return "done";
        },
      }),
    };
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
    const isThere = await this.env.SOAK.get(plan.id).then(
      async (instance) => (await instance.status()).status !== "unknown",
      (error: unknown) => {
        if (String(error).includes("not_found")) return false;
        throw error;
      },
    );
    if (isThere) return plan.id;
    // Of an instance that the local engine had not written to disk when it was killed.
    this.deleteWorkflow(plan.id);
    return this.runWorkflow("SOAK", plan, { id: plan.id });
  }

  async submit({ key, thread, delayMs, hasEffect, refusedUntil, notBefore }: Ask) {
    const script: SoakScript = {
      text: key,
      delayMs,
      refusedUntil,
      ...(hasEffect && { tool: { name: "effect", input: { key } } }),
    };
    const parts = [{ type: "text" as const, text: soakAsk(script) }];
    const { submissionId }: SubmitMessagesResult = await this.submitMessages(
      [{ id: key, role: "user", parts }],
      {
        idempotencyKey: key,
        thread,
        notify: [this.#hook],
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
