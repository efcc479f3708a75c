/**
 * How many deliveries run at the same time. Each kind of destination has slots of its own, so that workflows, queues,
 * methods and agents never wait for webhooks. Within a kind, a destination that gave no response the last time has few
 * slots, and so has an endpoint that has not responded yet since the object started.
 *
 * Cloudflare lets six requests of an object wait for response headers and queues the others, also the app's own requests
 * to its model. Hence the small numbers for endpoints that may hang.
 * https://developers.cloudflare.com/workers/platform/limits/#simultaneous-open-connections
 */

type Health = "responsive" | "unknown" | "unresponsive";

/** `initial` attempts start at once. Above that one more starts whenever none is recent, up to `max`. */
type Limits = { readonly initial: number; readonly max: number };

/** How long an attempt is recent. */
export const RAMP_UP_MS = 300;
/** How long an endpoint that has not responded yet keeps its slot while another one waits for its first attempt. */
export const PREEMPTIBLE_AFTER_MS = 1_500;
/** The highest number of attempts of one kind, as a multiple of `concurrency`. */
const MAX_FACTOR = 16;
const UNKNOWN_ENDPOINTS = 4;
const UNRESPONSIVE_ENDPOINTS = 2;
/** Destinations that are remembered. */
const MAX_KNOWN = 4_096;

/** A slot in use. */
export type Slot = {
  readonly key: string;
  readonly health: Health;
  isRecent: boolean;
  /** Whether its attempt ends when another endpoint needs the slot. */
  isPreemptible: boolean;
  /** Ends the attempt with this error. */
  readonly preempt: (error: Error) => void;
};

export class Slots {
  readonly #used = new Set<Slot>();
  readonly #responsive = new Set<string>();
  #unresponsiveKeys: Set<string> | undefined;

  /**
   * @param concurrency attempts of one kind that start without a delay
   * @param failing keys of endpoints that failed before the object started; read once
   */
  constructor(
    private readonly concurrency: number,
    private readonly failing: () => Iterable<string>,
  ) {}

  /** Whether a delivery to this destination can start: in one of the initial slots, or in an extra one. */
  slotFor(key: string): "free" | "extra" | undefined {
    const { initial, max } = this.#limitsOf(key);
    const others = this.#likeThis(key);
    if (others.length < initial) return "free";
    return others.length < max && !others.some(({ isRecent }) => isRecent) ? "extra" : undefined;
  }

  take(key: string, preempt: (error: Error) => void): Slot {
    const health = this.#healthOf(key);
    const slot: Slot = { key, health, isRecent: true, isPreemptible: false, preempt };
    this.#used.add(slot);
    return slot;
  }

  release(slot: Slot): void {
    this.#used.delete(slot);
  }

  /** The destination has answered or refused the connection. */
  responded(key: string): void {
    this.#unresponsive.delete(key);
    remember(this.#responsive, key);
  }

  /** The destination gave no response in time. */
  timedOut(key: string): void {
    this.#responsive.delete(key);
    remember(this.#unresponsive, key);
  }

  /** The destination counts as one that has not responded yet. */
  forget(key: string): void {
    this.#responsive.delete(key);
    this.#unresponsive.delete(key);
  }

  isUnknown(key: string): boolean {
    return this.#healthOf(key) === "unknown";
  }

  /** Ends the attempt that has waited longest for the first response of an endpoint, if such attempts use all slots. */
  preempt(): void {
    const unknown = [...this.#used].filter(({ health }) => health === "unknown");
    if (unknown.length < Math.min(UNKNOWN_ENDPOINTS, this.concurrency)) return;
    const [longest] = unknown.filter(({ isPreemptible }) => isPreemptible);
    longest?.preempt(new PreemptedError());
  }

  get #unresponsive(): Set<string> {
    if (!this.#unresponsiveKeys) {
      this.#unresponsiveKeys = new Set();
      for (const key of this.failing()) remember(this.#unresponsiveKeys, key);
    }
    return this.#unresponsiveKeys;
  }

  #healthOf(key: string): Health {
    if (this.#unresponsive.has(key)) return "unresponsive";
    return isWebhookKey(key) && !this.#responsive.has(key) ? "unknown" : "responsive";
  }

  #likeThis(key: string): Slot[] {
    const health = this.#healthOf(key);
    const kind = kindOf(key);
    return [...this.#used].filter((slot) => slot.health === health && kindOf(slot.key) === kind);
  }

  #limitsOf(key: string): Limits {
    const { concurrency } = this;
    const health = this.#healthOf(key);
    if (health === "responsive") return { initial: concurrency, max: concurrency * MAX_FACTOR };
    const endpoints = health === "unresponsive" ? UNRESPONSIVE_ENDPOINTS : UNKNOWN_ENDPOINTS;
    const initial = isWebhookKey(key) ? Math.min(concurrency, endpoints) : concurrency;
    return { initial, max: health === "unresponsive" ? initial : 2 * initial };
  }
}

/** An attempt that was ended because another endpoint needed its slot. The request may have arrived. */
export class PreemptedError extends Error {
  override readonly name = "PreemptedError";
  constructor() {
    super(`No response within ${PREEMPTIBLE_AFTER_MS} ms, and other endpoints waited for a slot`);
  }
}

export function isWebhookKey(key: string): boolean {
  return kindOf(key) === "webhook";
}

/** A destination's key begins with its kind. */
function kindOf(key: string): string {
  return key.split(" ", 1)[0] ?? key;
}

/** Adds a key as the newest, and drops the oldest above the limit. */
function remember(keys: Set<string>, key: string): void {
  keys.delete(key);
  keys.add(key);
  const [oldest] = keys;
  if (oldest !== undefined && keys.size > MAX_KNOWN) keys.delete(oldest);
}
