/**
 * The waits and the outbox on a plain Durable Object, with kinds that do what
 * the test that has named the object says. No workflow: what is told of an end
 * is kept where no crash undoes it.
 */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { type Destination, Outbox, type Transport } from "../../src/outbox/index.ts";
import { Meter, metered } from "../../src/testing/index.ts";
import { type Approval, Approvals, approvalKind, Waits } from "../../src/waits/index.ts";
import type { StoredKind, StoredKindName } from "../../src/waits/protocol.ts";

export type WaitsScript = {
  /** In place of a kind that does nothing. */
  readonly kinds?: (
    object: WaitsObject,
    waits: Waits,
  ) => Partial<Record<StoredKindName, StoredKind>>;
  /** Before what is told reaches the workflow. */
  readonly deliver?: () => Promise<void>;
  /** What is announced of approvals. */
  readonly onApproval?: (approval: Approval) => void;
  /** How far the clock of this object alone is ahead, on top of the others'. */
  readonly aheadMs?: () => number;
  /** Its workflows were terminated where it did not see it. */
  readonly isGone?: () => boolean | Promise<boolean>;
};

/** By the object's name. */
export const waitsScripts = new Map<string, WaitsScript>();
/** Events that came to a workflow instance, in their order. */
export const arrivals = new Map<string, Arrival[]>();
type Arrival = { id: string; eventType: string; proof: string | undefined; data: unknown };
/** How far the objects' clock is ahead of the machine's, or where it stands still. */
export const waitsTime: { aheadMs: number; stoppedAt: number | undefined } = {
  aheadMs: 0,
  stoppedAt: undefined,
};
const clockOf = ({ aheadMs = () => 0 }: WaitsScript = {}) => ({
  now: () => (waitsTime.stoppedAt ?? Date.now() + waitsTime.aheadMs) + aheadMs(),
  random: () => 0,
});

export class WaitsObject extends DurableObject<Cloudflare.Env> {
  readonly meter: Meter;
  readonly lifecycle = Lifecycle.install(this);
  readonly outbox: Outbox;
  readonly waits: Waits;
  readonly approvals: Approvals;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
    const script = waitsScripts.get(ctx.id.name ?? "");
    const clock = clockOf(script);
    const workflow: Partial<Transport<Extract<Destination, { kind: "workflow" }>>> = {
      problemOf: () => undefined,
      keyOf: ({ instance }) => `workflow ${instance}`,
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 30_000,
      isGone: async () => (await script?.isGone?.()) ?? false,
      deliver: async ({ instance, eventType, proof }, sent) => {
        // Nothing leaves the object before what was written is stored.
        await ctx.storage.sync();
        await script?.deliver?.();
        const { data } = (sent as { event: { data: unknown } }).event;
        arrivals.set(instance, [
          ...(arrivals.get(instance) ?? []),
          { id: sent.id, eventType, proof, data },
        ]);
      },
    };
    this.outbox = new Outbox({ host: this, env, clock, transports: { workflow } });
    const approval = approvalKind((one) => script?.onApproval?.(one));
    const none = { answersLaterRuns: () => false };
    const own = { approval, "agent-tool": none };
    this.waits = new Waits({
      outbox: this.outbox,
      clock,
      kinds: (waits) => ({ ...own, ...script?.kinds?.(this, waits) }),
    });
    this.approvals = new Approvals(this.waits);
    this.lifecycle.use(this.outbox).use(this.waits);
  }
}
