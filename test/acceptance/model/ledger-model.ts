/** A model of the ledger: lanes, keys and ends, without storage, time or crashes. */

/** `held` waits for its release. `deaf` does too, and goes on after it was cancelled. `later` has a `notBefore`. */
export type Kind = "answer" | "fail" | "held" | "deaf" | "later";
type Status = "pending" | "running" | "completed" | "error" | "aborted" | "skipped";

export type ModelSubmission = {
  readonly id: string;
  readonly kind: Kind;
  readonly thread: string;
  /** Id of its user message. */
  readonly messageId: string;
  key: string | undefined;
  status: Status;
  /** The submission that has taken its place. */
  retriedBy?: string;
  /** It has repeated another one. */
  isRetry?: boolean;
};

export class LedgerModel {
  readonly submissions: ModelSubmission[] = [];
  /** User messages of each thread, in order. */
  readonly threads = new Map<string, string[]>();
  /** Ended ones, whose destination has received the end. Deleted ones stay. */
  readonly received = new Set<string>();
  readonly released = new Set<string>();
  hasTimePassed = false;

  find(id: string): ModelSubmission | undefined {
    return this.submissions.find((one) => one.id === id);
  }

  /** Returns the submission that the key has, or stores a new one. */
  submit(one: Omit<ModelSubmission, "status">): { id: string; accepted: boolean } {
    const known = this.submissions.find(({ key }) => one.key !== undefined && key === one.key);
    if (known) return { id: known.id, accepted: false };
    this.submissions.push({ ...one, status: "pending" });
    this.settle();
    return { id: one.id, accepted: true };
  }

  cancel(id: string): string {
    const found = this.find(id);
    if (!found) return "not_found";
    if (isEnded(found)) return "already_terminal";
    this.#end(found, "aborted");
    this.settle();
    return "cancelled";
  }

  /** @param newId of the submission that is made, if one is */
  retry(id: string, newId: string): { id: string; accepted: boolean } | undefined {
    const found = this.find(id);
    if (!found) return undefined;
    if (found.retriedBy !== undefined) return { id: found.retriedBy, accepted: false };
    if (!isEnded(found) || found.status === "completed") return { id, accepted: false };
    const { kind, thread, messageId, key } = found;
    found.retriedBy = newId;
    found.key = undefined;
    this.submissions.push({
      id: newId,
      kind,
      thread,
      messageId,
      key,
      status: "pending",
      isRetry: true,
    });
    this.settle();
    return { id: newId, accepted: true };
  }

  delete(id: string): boolean {
    const at = this.submissions.findIndex((one) => one.id === id && isEnded(one));
    if (at >= 0) this.submissions.splice(at, 1);
    return at >= 0;
  }

  clear(thread: string): void {
    for (const one of this.submissions.filter((one) => one.thread === thread && !isEnded(one)))
      this.#end(one, one.status === "running" ? "aborted" : "skipped");
    this.threads.delete(thread);
    this.settle();
  }

  release(id: string): void {
    this.released.add(id);
    this.settle();
  }

  passTime(): void {
    this.hasTimePassed = true;
    this.settle();
    this.hasTimePassed = false;
  }

  /** Lets each lane go on as far as it can. */
  settle(): void {
    for (const one of this.submissions) {
      if (one.status === "pending" && this.#mayStart(one)) this.#start(one);
      if (one.status === "running") this.#run(one);
    }
  }

  #mayStart(one: ModelSubmission): boolean {
    if (one.kind === "later" && !this.hasTimePassed) return false;
    if (one.thread === "isolated") return true;
    return !this.submissions.some(
      ({ thread, status }) => thread === one.thread && status === "running",
    );
  }

  #start(one: ModelSubmission): void {
    one.status = "running";
    if (one.thread === "isolated") return;
    const others = (this.threads.get(one.thread) ?? []).filter((id) => id !== one.messageId);
    this.threads.set(one.thread, [...others, one.messageId]);
  }

  #run(one: ModelSubmission): void {
    if (one.kind === "fail") this.#end(one, "error");
    else if (!isHeld(one.kind) || this.released.has(one.messageId)) this.#end(one, "completed");
  }

  #end(one: ModelSubmission, status: Status): void {
    one.status = status;
    this.received.add(one.id);
  }
}

export function isHeld(kind: Kind): boolean {
  return kind === "held" || kind === "deaf";
}

function isEnded({ status }: ModelSubmission): boolean {
  return status !== "pending" && status !== "running";
}
