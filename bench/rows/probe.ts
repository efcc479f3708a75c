/** Counts and controls of one metered object, for the requests of the worker. */

import { RpcTarget } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { type Count, Meter, metered, ScriptedModel } from "perdure/testing";

export type Settings = {
  /** Keeps every ended submission. */
  readonly keepsAll?: boolean;
  /** Age at which ended submissions are deleted, in milliseconds. */
  readonly maxAgeMs?: number;
  readonly maxConcurrentTurns?: number;
};

/** Set before the object starts, in the memory of the isolate that all objects of the local runtime share. */
export const settings = new Map<string, Settings>();
/** Calls of the model so far, by the name of the object. */
export const modelCalls = new Map<string, number>();
/** Ids of workflows that have ended, with the error of a failed one. */
export const ends = new Map<string, Error | undefined>();

/** The options of Perdure for an object. Nothing that a measure submits is refused. */
export function optionsFor(ctx: DurableObjectState) {
  const { keepsAll, maxAgeMs, maxConcurrentTurns = 4 } = settings.get(ctx.id.name ?? "") ?? {};
  return {
    maxPending: Number.POSITIVE_INFINITY,
    maxConcurrentTurns,
    ...(keepsAll && { retention: { maxCount: Number.POSITIVE_INFINITY } }),
    ...(maxAgeMs !== undefined && { retention: { maxAge: maxAgeMs } }),
  };
}

/** Meters an object from its first statement. Call it before `super(ctx, env)`. */
export function meterFor(ctx: DurableObjectState): Meter {
  const meter = new Meter();
  metered(ctx, meter);
  return meter;
}

export class CountedModel extends ScriptedModel {
  readonly #name: string;

  constructor(ctx: DurableObjectState) {
    super();
    this.#name = ctx.id.name ?? "";
  }

  override doStream(...args: Parameters<ScriptedModel["doStream"]>) {
    modelCalls.set(this.#name, (modelCalls.get(this.#name) ?? 0) + 1);
    return super.doStream(...args);
  }
}

export function message(text: string): UIMessage {
  return { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
}

export class Probe extends RpcTarget {
  readonly #ctx: DurableObjectState;
  readonly #meter: Meter;

  constructor(ctx: DurableObjectState, meter: Meter) {
    super();
    this.#ctx = ctx;
    this.#meter = meter;
  }

  reset(): void {
    this.#meter.reset();
  }

  read(): Count {
    // The local runtime stores the name of each object in a separate table.
    const rowsWritten = this.#meter.rowsWrittenBy((query) => !query.includes("__miniflare"));
    return { ...this.#meter.read(), rowsWritten };
  }

  async hasAlarm(): Promise<boolean> {
    return (await this.#ctx.storage.getAlarm()) !== null;
  }

  /** Leaves nothing that runs beside the next measure. */
  async destroy(): Promise<void> {
    await this.#ctx.storage.deleteAlarm();
    await this.#ctx.storage.deleteAll();
    this.#ctx.abort("bench");
  }

  /** The object starts again at its next call. */
  async die(): Promise<void> {
    await this.#ctx.storage.sync();
    this.#ctx.abort("bench");
  }
}
