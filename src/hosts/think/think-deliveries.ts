/** What a Think agent offers about its outbox. */

import type { Instant } from "../../core/instant.ts";
import type { Json } from "../../core/json.ts";
import type {
  DeadLetterFilter,
  DeadLetterPage,
  DeliveryPage,
  DeliveryState,
  Endpoint,
  ListDeadLettersOptions,
  ListDeliveriesOptions,
  OutboxStats,
} from "../../outbox/index.ts";
import { ThinkRooms } from "./think-rooms.ts";

export class ThinkDeliveries<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkRooms<Env, State, Props> {
  /**
   * Lists deliveries, the newest first: waiting, given up, discarded, and those delivered ones that are kept.
   *
   * @throws InvalidFilterError for an option or a value that there is none of
   * @example const { deliveries } = await agent.listDeliveries({ submissionId })
   */
  listDeliveries(options?: ListDeliveriesOptions): Promise<DeliveryPage> {
    return this.outbox.listDeliveries(options);
  }

  /** Deliveries that were given up, newest first (O3). */
  listDeadLetters(options?: ListDeadLettersOptions): Promise<DeadLetterPage> {
    return this.outbox.listDeadLetters(options);
  }

  /** How many deliveries were given up. */
  countDeadLetters(filter?: DeadLetterFilter): Promise<number> {
    return this.outbox.countDeadLetters(filter);
  }

  /**
   * Tries a delivery that was given up again.
   *
   * @returns whether it is sent: false for an unknown id, and for one to a disabled endpoint
   */
  redriveDeadLetter(id: string): Promise<boolean> {
    return this.outbox.redrive(id);
  }

  /**
   * Tries deliveries that were given up again: since a time, for a destination, or all.
   *
   * @returns how many are sent: those to disabled endpoints stay dead letters
   */
  redriveDeadLetters(filter: DeadLetterFilter): Promise<number> {
    return this.outbox.redriveAll(filter);
  }

  /** Forgets a delivery that was given up for good. Returns whether there was one. */
  deleteDeadLetter(id: string): Promise<boolean> {
    return this.outbox.deleteDeadLetter(id);
  }

  /** Forgets deliveries that were given up before a time for good. Returns how many. */
  deleteDeadLetters(options: { before: Instant }): Promise<number> {
    return this.outbox.deleteDeadLetters(options);
  }

  /** The state of a webhook's URL. */
  inspectEndpoint(url: string): Promise<Endpoint> {
    return this.outbox.inspectEndpoint(url);
  }

  /** The URLs of webhooks that are not healthy. */
  listEndpoints(): Promise<Endpoint[]> {
    return this.outbox.listEndpoints();
  }

  /** Sends to a webhook's URL again, beginning with what was given up meanwhile. Returns how many those are. */
  enableEndpoint(url: string): Promise<number> {
    return this.outbox.enableEndpoint(url);
  }

  /** Sends nothing more to a webhook's URL, until it is enabled. */
  disableEndpoint(url: string, reason?: string): Promise<void> {
    return this.outbox.disableEndpoint(url, reason);
  }

  /** The whole event of a delivery that came as a reference (O4); null for an unknown id. */
  readDelivery(id: string): Promise<Json> {
    return this.outbox.read(id);
  }

  /** Where a delivery is; null for an unknown id, or one that was delivered and is not kept. */
  inspectDelivery(id: string): Promise<DeliveryState | null> {
    return this.outbox.inspect(id);
  }

  /** How many deliveries wait, and how many were given up. */
  outboxStats(): Promise<OutboxStats> {
    return this.outbox.stats();
  }
}
