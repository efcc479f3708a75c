/** What is counted of an object, and what it is asked. */

import type { UIMessage } from "ai";
import { type Count, Meter, metered } from "../../src/testing/meter.ts";

/** What something cost the object, and how much of its rows is agents' own tracking of workflows. */
export type Cost = Count & { readonly trackingRows: number };

const COUNTED = "counted-";

/** The name of an object that counts: a meter holds on to all that it has counted, which times and weights would show. */
export function countedName(): string {
  return `${COUNTED}${crypto.randomUUID()}`;
}

/** The meter of an object, which counts where its name says so. To be called before `super(ctx, env)`. */
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
  };
}

export function message(text: string): UIMessage {
  return { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
}
