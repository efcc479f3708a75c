/**
 * Runs `drive()` and `stop()` of the kinds in the background, one of each at a time for a wait, and again when it is due. Expires
 * waits whose step never asked for their end, and prunes closed ones.
 */

import { withTimeout } from "../../core/clock.ts";
import { Sweep } from "../../engine/sweep.ts";
import { HEARTBEAT_MS, type WorkLoop } from "../../engine/work-loop.ts";
import { RESTARTED } from "./closings.ts";
import type { Closing, StoredKind, Wait } from "./protocol.ts";
import type { WaitStore } from "./store.ts";

/** A drive that runs for so long may never return: the object is no longer kept alive for it. */
const HUNG_MS = 3_600_000;
/** When a wake looks at a hanging drive: the object may have been restarted by then. */
const AFTER_HUNG_MS = 3_600_000;
const AT_A_TIME = 100;
const LAST_LOOK_MS = 20_000;
const KEPT_MS = 30 * 86_400_000;

/** For a wait whose kind the agent no longer has: a deploy that has it again drives the wait, or stops what runs for it. */
const MISSING: StoredKind = {
  answersLaterRuns: ({ status }) => status === "completed",
  stop: async () => {},
};

/** A running drive or stop. */
type Run = {
  readonly waitId: string;
  readonly since: number;
  isStale: boolean;
  isHung: boolean;
};

export class Driver {
  readonly #running = new Map<string, Run>();
  readonly #sweep = new Sweep(() => this.loop.clock.random(), "perdure_waits");

  readonly kinds = new Map<string, StoredKind>();

  /**
   * @param store opened at its first use
   * @param close closes a wait that no step has asked for in time
   */
  constructor(
    private readonly loop: WorkLoop,
    private readonly store: () => WaitStore,
    private readonly close: (wait: Wait) => void,
  ) {}

  /** Kinds whose open waits are cancelled when their run ends. */
  get kindsOfRuns(): string[] {
    return [...this.kinds].flatMap(([name, { endsWithRun }]) => (endsWithRun ? [name] : []));
  }

  has(name: string): boolean {
    return this.kinds.has(name);
  }

  kindOf({ kind }: Wait): StoredKind {
    return this.kinds.get(kind) ?? MISSING;
  }

  /** In the background. Never fails. */
  announce(wait: Wait): void {
    const kind = this.kindOf(wait);
    if (kind.announce === undefined) return;
    this.loop
      .inHostContext(async () => kind.announce?.(wait))
      .catch((error) => console.error(`[perdure] a wait could not be announced:`, error));
  }

  /** After a start of the object: a crash may have cut off any of them. */
  resume(): void {
    const driven = [...this.kinds].filter(([, { drive, stop }]) => drive ?? stop);
    const names = driven.map(([name]) => name);
    for (const wait of this.store().live(names)) this.start(wait);
  }

  /** Drives an open wait, or stops what runs for a closed one; once more if that is running already. Never fails. */
  start({ waitId, status, kind }: Wait): void {
    if (!this.has(kind)) return;
    const id = runIdOf({ waitId, status });
    const running = this.#running.get(id);
    if (running) {
      running.isStale = true;
      return;
    }
    const run: Run = { waitId, since: this.loop.clock.now(), isStale: false, isHung: false };
    this.#running.set(id, run);
    const work = this.#run(waitId).finally(() => {
      this.#running.delete(id);
      if (!run.isStale) return;
      this.loop.tryOrPause(waitId, "a wait could not be read", () => {
        const now = this.store().find(waitId);
        if (now?.isLive) this.start(now);
      });
    });
    this.loop.track(run, work);
  }

  /** How the kind closes a wait whose time is over, or undefined: as its step says. Never fails. */
  async lastLook(wait: Wait): Promise<Closing | undefined> {
    let closing: Closing | undefined;
    const look = async () => {
      closing = await this.kindOf(wait).lastLook?.(wait);
    };
    try {
      await withTimeout(this.loop.inHostContext(look), LAST_LOOK_MS);
    } catch (error) {
      console.error("[perdure] a wait could not be checked at its timeout:", error);
    }
    return closing;
  }

  drive(): number | null {
    const store = this.store();
    const now = this.loop.clock.now();
    this.#giveUpHung(now);
    for (const wait of store.due(now, AT_A_TIME)) {
      const isOpen = wait.status === "open";
      if (isOpen && (wait.expiresAt <= now || wait.run === RESTARTED)) this.close(wait);
      else if (!isOpen && !this.has(wait.kind)) this.#restMissing(wait, now);
      else if (isOpen && this.kindOf(wait).drive === undefined) store.restUntil(wait.waitId, null);
      else if (this.#running.get(runIdOf(wait))?.isHung) this.#restHung(wait.waitId, now);
      else this.start(wait);
    }
    store.prune(now - KEPT_MS, this.#sweep);
    // A wait that is driven now is still due by its row.
    return this.loop.isBusy ? null : store.nextWake();
  }

  #giveUpHung(now: number): void {
    for (const run of this.#running.values()) {
      if (run.isHung || now - run.since < HUNG_MS) continue;
      run.isHung = true;
      this.loop.untrack(run);
      console.error(
        `[perdure] the wait ${run.waitId} is driven for more than an hour, and may hang`,
      );
      this.#restHung(run.waitId, now);
    }
  }

  /** What runs for a closed wait is forgotten with the wait, where no deploy has its kind again. */
  #restMissing({ waitId, settledAt = 0 }: Wait, now: number): void {
    const until = settledAt + KEPT_MS;
    if (until > now) this.store().wakeAt(waitId, until);
    else this.store().done(waitId, now);
  }

  /** An open one still expires at its time. */
  #restHung(waitId: string, now: number): void {
    const store = this.store();
    const until = now + AFTER_HUNG_MS;
    if (store.find(waitId)?.status === "open") store.restUntil(waitId, until);
    else store.wakeAt(waitId, until);
  }

  async #run(waitId: string): Promise<void> {
    const { clock, wake, inHostContext } = this.loop;
    const store = this.store();
    let again: number | null = null;
    try {
      const wait = store.find(waitId);
      if (!wait?.isLive) return;
      await inHostContext(async () => {
        const kind = this.kindOf(wait);
        if (wait.status === "open") again = (await kind.drive?.(wait)) ?? null;
        else await kind.stop?.(wait);
      });
      if (wait.status !== "open") store.done(waitId, clock.now());
      else store.restUntil(waitId, again);
    } catch (error) {
      console.error("[perdure] a wait could not be driven, will retry:", error);
      const until = clock.now() + HEARTBEAT_MS;
      again = until;
      const what = "the next attempt to drive a wait could not be stored";
      this.loop.tryOrPause(waitId, what, () => store.wakeAt(waitId, until));
    }
    if (again !== null) wake.request(again);
  }
}

/** One of each for a wait at a time. */
function runIdOf({ waitId, status }: Pick<Wait, "waitId" | "status">): string {
  return `${status === "open" ? "drive" : "stop"}:${waitId}`;
}
