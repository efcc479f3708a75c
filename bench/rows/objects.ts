/** A metered object of each host, and of the classes of the SDK that they extend. */

import { DurableObject } from "cloudflare:workers";
import { Think } from "@cloudflare/think";
import { Agent } from "agents";
import { Lifecycle } from "agents/lifecycle";
import { DurableAgent } from "perdure/agent";
import { inbound } from "perdure/inbound";
import { type DurableVerbs, durable } from "perdure/object";
import { operations } from "perdure/operator";
import { method, UndeliverableError } from "perdure/outbox";
import { schedules } from "perdure/scheduler";
import type { Meter } from "perdure/testing";
import { DurableThink } from "perdure/think";
import { CountedModel, meterFor, optionsFor, Probe } from "./probe.ts";

/** Deliveries that arrived, by the name of the object. */
export const delivered = new Map<string, number>();

type Outbox = { put(destination: ReturnType<typeof method>, event: unknown): unknown };

/** Puts events in one transaction. */
function putMany(ctx: DurableObjectState, outbox: Outbox, to: string, count: number): void {
  ctx.storage.transactionSync(() => {
    for (let index = 0; index < count; index++) outbox.put(method(to), { type: "counted", index });
  });
}

function hear(ctx: DurableObjectState): void {
  const name = ctx.id.name ?? "";
  delivered.set(name, (delivered.get(name) ?? 0) + 1);
}

function refuse(): never {
  throw new UndeliverableError("refused");
}

export class ThinkRows extends DurableThink {
  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = meterFor(ctx);
    super(ctx, env, optionsFor(ctx));
    this.meter = meter;
  }

  override getModel() {
    return new CountedModel(this.ctx);
  }

  get probe(): Probe {
    return new Probe(this.ctx, this.meter);
  }

  put(to: "hear" | "refuse", count: number): void {
    putMany(this.ctx, this.outbox, to, count);
  }

  hear(): void {
    hear(this.ctx);
  }

  refuse(): void {
    refuse();
  }

  /** Each dead letter is expected. */
  protected override onProblem(): void {}
}

export class AgentRows extends DurableAgent {
  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = meterFor(ctx);
    super(ctx, env, optionsFor(ctx));
    this.meter = meter;
  }

  override getModel() {
    return new CountedModel(this.ctx);
  }

  get probe(): Probe {
    return new Probe(this.ctx, this.meter);
  }

  put(to: "hear" | "refuse", count: number): void {
    putMany(this.ctx, this.outbox, to, count);
  }

  hear(): void {
    hear(this.ctx);
  }

  refuse(): void {
    refuse();
  }

  /** Each dead letter is expected. */
  protected override onProblem(): void {}
}

/** An agent with the features that have tables. */
export class FullAgentRows extends AgentRows {
  static override readonly features = [schedules(), inbound(), operations()];
}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class ObjectRows extends DurableObject {
  readonly meter: Meter;
  readonly lifecycle: ReturnType<typeof Lifecycle.install>;
  readonly durable: ReturnType<typeof durable>;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = meterFor(ctx);
    super(ctx, env);
    this.meter = meter;
    this.lifecycle = Lifecycle.install(this);
    this.durable = durable(this, {
      ...optionsFor(ctx),
      model: new CountedModel(ctx),
      features: [operations()], // without rows of its own until an operator acts
      onProblem: () => {}, // each dead letter is expected
    });
  }

  get probe(): Probe {
    return new Probe(this.ctx, this.meter);
  }

  async put(to: "hear" | "refuse", count: number): Promise<void> {
    await this.lifecycle.start();
    putMany(this.ctx, this.durable.outbox, to, count);
  }

  hear(): void {
    hear(this.ctx);
  }

  refuse(): void {
    refuse();
  }
}
export interface ObjectRows extends DurableVerbs {}

export class BuiltInThinkRows extends Think {
  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = meterFor(ctx);
    super(ctx, env);
    this.meter = meter;
  }

  override getModel() {
    return new CountedModel(this.ctx);
  }

  get probe(): Probe {
    return new Probe(this.ctx, this.meter);
  }
}

export class BuiltInAgentRows extends Agent {
  readonly meter: Meter;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = meterFor(ctx);
    super(ctx, env);
    this.meter = meter;
  }

  get probe(): Probe {
    return new Probe(this.ctx, this.meter);
  }
}
