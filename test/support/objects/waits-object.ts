/**
 * The waits and the outbox on a plain Durable Object. Their kinds do what the script of the object's name says. There is no
 * workflow: its events are kept in memory, where no crash undoes them.
 */

import type { OnProblem } from "../../../src/core/problems.ts";
import type { WaitedArrival } from "../../../src/features/inbound/protocol.ts";
import { WebhookWaits } from "../../../src/features/inbound/waits/webhook-waits.ts";
import { type Adapter, type Destination, Outbox } from "../../../src/outbox/index.ts";
import { STEP_KINDS } from "../../../src/workflow/agent/features.ts";
import { Approvals } from "../../../src/workflow/waits/kinds/approval.ts";
import type { Approval } from "../../../src/workflow/waits/kinds/approval-types.ts";
import { KINDS } from "../../../src/workflow/waits/kinds.generated.ts";
import type { StoredKind } from "../../../src/workflow/waits/protocol.ts";
import { Waits } from "../../../src/workflow/waits/waits.ts";
import { kindsWith } from "../kinds.ts";
import { MeteredObject } from "./metered-object.ts";
import { TestArrivals } from "./test-arrivals.ts";

export type WaitsScript = {
  /** In place of a kind that does nothing. */
  readonly kinds?: (object: WaitsObject, waits: Waits) => Readonly<Record<string, StoredKind>>;
  /** Before an event reaches the workflow. */
  readonly deliver?: () => Promise<void>;
  /** The hook of approvals. */
  readonly onApproval?: (approval: Approval) => void;
  /** How far the clock of this object alone is ahead, in addition to that of all objects. */
  readonly aheadMs?: () => number;
  /** Whether its workflows were terminated by another caller. */
  readonly isGone?: () => boolean | Promise<boolean>;
  readonly onProblem?: OnProblem;
};

/** By the object's name. */
export const waitsScripts = new Map<string, WaitsScript>();
/** Events that have arrived at a workflow instance, in order. */
export const endEvents = new Map<string, EndEvent[]>();
type EndEvent = { id: string; eventType: string; proof: string | undefined; data: unknown };
/** How far the objects' clock is ahead of the machine's, or at which time it is stopped. */
export const waitsTime: { aheadMs: number; stoppedAt: number | undefined } = {
  aheadMs: 0,
  stoppedAt: undefined,
};
const clockOf = ({ aheadMs = () => 0 }: WaitsScript = {}) => ({
  now: () => (waitsTime.stoppedAt ?? Date.now() + waitsTime.aheadMs) + aheadMs(),
  random: () => 0,
});

export class WaitsObject extends MeteredObject {
  readonly outbox: Outbox;
  readonly waits: Waits;
  readonly approvals: Approvals;
  readonly webhooks: WebhookWaits;
  #arrivals: TestArrivals | undefined;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    const script = waitsScripts.get(ctx.id.name ?? "");
    const clock = clockOf(script);
    const workflow: Partial<Adapter<Extract<Destination, { kind: "workflow" }>>> = {
      problemOf: () => undefined,
      keyOf: ({ instance }) => `workflow ${instance}`,
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 30_000,
      endOf: async () => ((await script?.isGone?.()) ? "gone" : null),
      deliver: async ({ instance, eventType, proof }, sent) => {
        // As a request would: nothing leaves the object before earlier writes are durable.
        await ctx.storage.sync();
        await script?.deliver?.();
        const { data } = (sent as { event: { data: unknown } }).event;
        endEvents.set(instance, [
          ...(endEvents.get(instance) ?? []),
          { id: sent.id, eventType, proof, data },
        ]);
      },
    };
    this.outbox = new Outbox({ host: this, env, clock });
    this.outbox.install(kindsWith({ workflow }));
    const approval = KINDS.approval({
      onApproval: (one) => script?.onApproval?.(one),
      outbox: this.outbox,
      linkOf: async ({ waitId }, decision) => `https://app.example/${decision}/${waitId}`,
    });
    const none = { answersLaterRuns: () => false };
    this.waits = new Waits({ outbox: this.outbox, clock, ofFeatures: STEP_KINDS });
    const kinds = { approval, "agent-tool": none, ...script?.kinds?.(this, this.waits) };
    for (const [name, kind] of Object.entries(kinds)) this.waits.install(name, kind);
    this.webhooks = new WebhookWaits({
      waits: this.waits,
      arrivals: this.arrivals,
      links: () => ({ check: async () => {}, urlOf: async ({ id }) => id }),
      onProblem: script?.onProblem,
    });
    this.waits.install("webhook", this.webhooks);
    this.approvals = new Approvals(this.waits, async () => "");
    this.lifecycle.use(this.outbox).use(this.waits);
  }

  get arrivals(): TestArrivals {
    this.#arrivals ??= new TestArrivals(this.ctx.storage);
    return this.#arrivals;
  }

  /**
   * Accepts an arrival as an agent does: what it ends commits with it. A duplicate ends nothing. Returns the ids of the waits.
   *
   * @param then runs in the same transaction
   */
  async accept(arrival: WaitedArrival, then = () => {}): Promise<string[]> {
    await this.lifecycle.start();
    return this.ctx.storage.transactionSync(() => {
      if (!this.arrivals.add(arrival)) return [];
      const matches = this.webhooks.match(arrival);
      for (const match of matches) {
        this.arrivals.recordWait(arrival.source, arrival.id, match);
      }
      then();
      return matches.map(({ waitId }) => waitId);
    });
  }
}
