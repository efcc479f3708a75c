/**
 * What a delivery can be sent to, with nothing in it but what a test needs: a
 * workflow, an object, an agent and the consumer of a queue. No Think.
 */

import {
  DurableObject,
  RpcTarget,
  WorkflowEntrypoint,
  type WorkflowEvent,
  type WorkflowStep,
} from "cloudflare:workers";
import { Agent } from "agents";
import { UndeliverableError } from "../../src/outbox/errors.ts";
import type { Delivery } from "../../src/outbox/index.ts";
import { dedupe } from "../../src/outbox/receiver/dedupe.ts";

/** What came, by delivery id, wherever it came to. It outlives the objects. */
export const received = new Map<string, Delivery<string>[]>();
/** Delivery ids of which the answer was let go. */
export const released = new Set<string>();

function note(delivery: Delivery<string>): void {
  received.set(delivery.id, [...(received.get(delivery.id) ?? []), delivery]);
}

/** The consumer of the queue. */
export function queue(batch: MessageBatch<Delivery<string>>): void {
  for (const { body } of batch.messages) note(body);
}

type WorkflowPlan = "wait" | "return" | "throw" | "count";

/** How often an instance of the plan "count" has had its effect, by its id. */
export const counted = new Map<string, number>();

/** Waits for an event, or ends at once, as its params say. */
export class WaitingWorkflow extends WorkflowEntrypoint<Cloudflare.Env, WorkflowPlan> {
  override async run(
    { payload: plan, instanceId }: WorkflowEvent<WorkflowPlan>,
    step: WorkflowStep,
  ) {
    if (plan === "throw") throw new Error("The workflow fails");
    if (plan === "return") return "done";
    if (plan === "count") {
      const count = async () => void counted.set(instanceId, (counted.get(instanceId) ?? 0) + 1);
      return step.do("count", count);
    }
    const { payload } = await step.waitForEvent<Delivery<string>>("wait", { type: "ended" });
    return payload;
  }
}

/** What the platform keeps for the caller until the caller lets it go. */
class Answer extends RpcTarget {
  readonly #id: string;

  constructor(id: string) {
    super();
    this.#id = id;
  }

  [Symbol.dispose]() {
    released.add(this.#id);
  }
}

/** How the handling of a delivery goes: it fails with nothing written or all of it, it crashes before or after the commit. */
export type Fate =
  | "goes well"
  | "throws early"
  | "throws late"
  | "crashes within"
  | "crashes after";

export class Receiver extends DurableObject<Cloudflare.Env> {
  readonly once = dedupe(this.ctx.storage);

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS effects (id TEXT)");
  }

  take(delivery: Delivery<string>) {
    note(delivery);
    return { answer: new Answer(delivery.id) };
  }

  fail(): void {
    throw new Error("not today");
  }

  refuse(): void {
    throw new UndeliverableError("not ever", { isGone: true });
  }

  reset(): void {
    this.ctx.abort("reset in the middle");
  }

  /** Says of its own work what the platform says of calls. */
  failAsIfTooLarge(): void {
    throw new Error(
      "Serialized RPC arguments or return values are limited to 32MiB, and too large",
    );
  }

  /** Notes an effect, exactly once for each id, unless its fate is another. */
  handle(delivery: { id: string }, fate: Fate): boolean {
    const { sql } = this.ctx.storage;
    const isFirst = this.once(delivery, () => {
      if (fate === "throws early") throw new Error("The effect fails");
      sql.exec("INSERT INTO effects (id) VALUES (?)", delivery.id);
      if (fate === "throws late") throw new Error("The effect fails");
      if (fate === "crashes within") this.ctx.abort("crash");
    });
    if (fate === "crashes after") this.ctx.abort("crash");
    return isFirst;
  }

  handleWell(delivery: Delivery<string>): boolean {
    return this.handle(delivery, "goes well");
  }

  handleAndCrash(delivery: Delivery<string>): boolean {
    return this.handle(delivery, "crashes after");
  }

  /** The ids of the effects that lasted. */
  effects(): string[] {
    return this.ctx.storage.sql
      .exec<{ id: string }>("SELECT id FROM effects ORDER BY id")
      .toArray()
      .map(({ id }) => id);
  }
}

export class ReceiverAgent extends Agent<Cloudflare.Env> {
  #hasStarted = false;

  override onStart(): void {
    this.#hasStarted = true;
  }

  take({ id, attempt }: Delivery<string>): void {
    if (!this.#hasStarted) throw new Error("An agent is called before its onStart()");
    note({ id, attempt, event: `received by ${this.name}` });
  }
}
