/**
 * How many destinations are told at the same time. Each kind has slots of its
 * own, so that workflows, queues, methods and agents never wait for webhooks.
 * Within a kind, a destination that gave no answer the last time has few
 * slots, and so has an endpoint that has not answered in this life.
 *
 * Cloudflare lets six requests of an object wait for response headers and
 * queues the others, among them the app's own requests to its model. Hence
 * the small numbers for endpoints that may hang.
 * https://developers.cloudflare.com/workers/platform/limits/#simultaneous-open-connections
 */

/** What is known about a destination. */
type Standing = "answered" | "unknown" | "silent";

/** `few` start at once. Above that one more starts whenever none is young, up to `most`. */
type Limits = { readonly few: number; readonly most: number };

/** How long an attempt is young. */
export const YOUNG_MS = 300;
/** How long an endpoint that has never answered keeps its slot while another one waits for its first attempt. */
export const PATIENCE_MS = 1_500;
/** How many times `concurrency` the attempts of one kind can be, when most of them hang. */
const MOST_FACTOR = 16;
const UNKNOWN_ENDPOINTS = 4;
const SILENT_ENDPOINTS = 2;
/** Destinations that are remembered. */
const MAX_KNOWN = 4_096;

/** An attempt that is under way. */
export type Attempt = {
  readonly key: string;
  readonly standing: Standing;
  isYoung: boolean;
  /** Whether it must end when another endpoint needs its slot. */
  isOverdue: boolean;
  /** Ends it with this error. */
  readonly evict: (error: Error) => void;
};

export class Slots {
  readonly #attempts = new Set<Attempt>();
  readonly #answered = new Set<string>();
  readonly #silent = new Set<string>();

  /**
   * @param concurrency attempts of one kind that start without a delay
   * @param failing keys of endpoints that failed before this life
   */
  constructor(
    private readonly concurrency: number,
    failing: Iterable<string>,
  ) {
    for (const key of failing) remember(this.#silent, key);
  }

  /** Whether a destination can be told now: freely, or as one of the few that are added to a crowd. */
  roomFor(key: string): "free" | "crowded" | undefined {
    const { few, most } = this.#limitsOf(key);
    const others = this.#like(key);
    if (others.length < few) return "free";
    return others.length < most && !others.some(({ isYoung }) => isYoung) ? "crowded" : undefined;
  }

  begin(key: string, evict: (error: Error) => void): Attempt {
    const standing = this.#standingOf(key);
    const attempt: Attempt = { key, standing, isYoung: true, isOverdue: false, evict };
    this.#attempts.add(attempt);
    return attempt;
  }

  end(attempt: Attempt): void {
    this.#attempts.delete(attempt);
  }

  /** The destination has answered, or has refused the connection: it does not hang. */
  answered(key: string): void {
    this.#silent.delete(key);
    remember(this.#answered, key);
  }

  /** The destination gave no answer in time. */
  silent(key: string): void {
    this.#answered.delete(key);
    remember(this.#silent, key);
  }

  /** Whatever is known of the destination does not hold any more. */
  forget(key: string): void {
    this.#answered.delete(key);
    this.#silent.delete(key);
  }

  isUnknown(key: string): boolean {
    return this.#standingOf(key) === "unknown";
  }

  /** Ends the attempt that has waited longest for the first answer of an endpoint, if they take all slots. */
  makeRoom(): void {
    const unknown = [...this.#attempts].filter(({ standing }) => standing === "unknown");
    if (unknown.length < Math.min(UNKNOWN_ENDPOINTS, this.concurrency)) return;
    const [longest] = unknown.filter(({ isOverdue }) => isOverdue);
    longest?.evict(new EvictedError());
  }

  #standingOf(key: string): Standing {
    if (this.#silent.has(key)) return "silent";
    return isEndpoint(key) && !this.#answered.has(key) ? "unknown" : "answered";
  }

  #like(key: string): Attempt[] {
    const standing = this.#standingOf(key);
    const kind = kindOf(key);
    return [...this.#attempts].filter(
      (other) => other.standing === standing && kindOf(other.key) === kind,
    );
  }

  #limitsOf(key: string): Limits {
    const { concurrency } = this;
    const standing = this.#standingOf(key);
    if (standing === "answered") return { few: concurrency, most: concurrency * MOST_FACTOR };
    const few = isEndpoint(key)
      ? Math.min(concurrency, standing === "silent" ? SILENT_ENDPOINTS : UNKNOWN_ENDPOINTS)
      : concurrency;
    return { few, most: standing === "silent" ? few : 2 * few };
  }
}

/** An attempt that was ended for another endpoint. The request may have arrived. */
export class EvictedError extends Error {
  override readonly name = "EvictedError";
  constructor() {
    super(
      `No answer within ${PATIENCE_MS} ms, and other endpoints were waiting for their first attempt`,
    );
  }
}

/** Whether the destination is told by a request to a server that may hang. */
export function isEndpoint(key: string): boolean {
  return kindOf(key) === "webhook";
}

/** A destination's key begins with its kind. */
function kindOf(key: string): string {
  return key.split(" ", 1)[0] ?? key;
}

/** Forgets the oldest above the limit. */
function remember(keys: Set<string>, key: string): void {
  keys.delete(key);
  keys.add(key);
  if (keys.size <= MAX_KNOWN) return;
  for (const oldest of keys) {
    keys.delete(oldest);
    return;
  }
}
