/** The counts of an object. */

import type { UIMessage } from "ai";
import { type Count, Meter, metered } from "../../src/testing/meter.ts";

/** The cost in the object, and how many of its rows are the tracking of workflows by `agents`. */
export type Cost = Count & {
  readonly trackingRows: number;
  /** Of these, those of the end of the workflow. */
  readonly endRows: number;
};

const COUNTED = "counted-";

/** The name of an object that counts. Others do not, because a meter keeps its cursors, which affects times and memory. */
export function countedName(): string {
  return `${COUNTED}${crypto.randomUUID()}`;
}

/** Meters an object whose name asks for it. Call it before `super(ctx, env)`. */
export function meterOf(ctx: DurableObjectState): Meter | undefined {
  if (!ctx.id.name?.startsWith(COUNTED)) return undefined;
  const meter = new Meter();
  metered(ctx, meter);
  return meter;
}

/** @throws Error for an object that does not count */
export function counting(meter: Meter | undefined): Meter {
  if (meter) return meter;
  throw new Error(`Nothing is counted here: the name of the object does not begin with ${COUNTED}`);
}

export function costOf(meter: Meter): Cost {
  return {
    ...meter.read(),
    trackingRows: meter.rowsWrittenBy((query) => query.includes("cf_agents_workflows")),
    endRows: meter.rowsWrittenBy((query) => query.includes("UPDATE cf_agents_workflows")),
  };
}

export function message(text: string): UIMessage {
  return { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
}
