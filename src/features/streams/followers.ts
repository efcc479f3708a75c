/**
 * Who follows submissions, threads and approvals of an object. Following writes nothing: the reply of a running turn is kept in
 * memory, and that of an ended one is read from its thread. A follower has no queue. It knows what it was sent, and asks for
 * the next events when its reader is ready, so that a slow reader costs nothing.
 */

import type { UIMessage } from "ai";
import type { Clock } from "../../core/clock.ts";
import { count, optionsOf, readOptions } from "../../core/options/option-schemas.ts";
import type { Turn } from "../../submissions/host.ts";
import { checkThread } from "../../submissions/intake/request.ts";
import { ThreadHistory } from "../../submissions/store/threads.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import { ISOLATED, MAIN, publicThreadOf } from "../../submissions/threads.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { Feature } from "../../workflow/agent/kernel.ts";
import { ReplyChunks } from "../../workflow/agent/reply-chunks.ts";
import type { ReplyWatcher, Watcher } from "../../workflow/agent/watchers.ts";
import type { Approval } from "../../workflow/waits/kinds/approval-types.ts";
import { cursorOf, END, type FollowOptions, fromOf, type Seen, textOf } from "./cursor.ts";
import type { FollowEvent, ReplyPart } from "./events.ts";
import { type Events, Follower } from "./follower.ts";
import { ThreadPosition } from "./thread-position.ts";

/** Bounds of what follows an object. */
export type FollowerSettings = {
  /**
   * Streams that are open at the same time. One more fails with TooManyFollowersError.
   * @default 1_000
   */
  readonly max?: number;
};

const SETTINGS = optionsOf<FollowerSettings>()({ max: count().default(1_000) });

/**
 * Lets callers follow submissions, threads and approvals of an agent, as streams of events: `followSubmission()`, `followThread()`
 * and `followApproval()`. `streams()` serves them to browsers. Following stores nothing.
 *
 * @throws InvalidOptionError
 * @example
 * export class Support extends DurableAgent<Env> {
 *   static override readonly features = [followers()];
 * }
 */
export function followers(settings: FollowerSettings = {}): Feature<"followers", Followers> {
  const { max } = readOptions(SETTINGS, settings, "options of followers()");
  return {
    feature: "followers",
    install: (kernel) => {
      const historyOf = (thread: string) => new ThreadHistory(kernel.storage.sql, thread);
      const made = new Followers({ ...kernel, historyOf }, max);
      kernel.watchers.add(made);
      return made;
    },
  };
}

/** What followers read of the object. */
type Followed = {
  readonly submissions: Pick<Submissions, "inspect" | "ready">;
  readonly clock: Pick<Clock, "now">;
  readonly historyOf: (thread: string) => ThreadHistory;
  readonly threads: { message(thread: string, id: string): Promise<UIMessage | undefined> };
  readonly approvals: { inspect(approvalId: string): Promise<Approval | null> };
};

/** Replies that are remembered after their end, so that followers get the last part of them. */
const MOST_ENDED = 8;
/**
 * A follower looks again after this time, even if nothing has changed, and gives a sign of life: the platform tells the object
 * that a reader over RPC has left when the object writes next.
 */
const ALIVE_MS = 15_000;

type IdOf = (seen: Seen) => string;

type Reply = {
  /** Another instance of the object, and another attempt, write another reply. */
  readonly id: string;
  readonly attempt: number;
  readonly base: UIMessage | undefined;
  readonly stream: ReplyChunks;
};

export class Followers implements Watcher {
  readonly #followers = new Set<Follower>();
  /** By submission. */
  readonly #replies = new Map<string, Reply>();
  readonly #ended: string[] = [];
  /** Followers that were refused since this object instance started, and the latest time. */
  readonly refused = { count: 0, at: 0 };

  constructor(
    private readonly kernel: Followed,
    readonly most: number,
    private readonly aliveMs = ALIVE_MS,
  ) {}

  status(submission: SubmissionInspection): void {
    const { submissionId } = submission;
    for (const follower of this.#followers)
      if (follower.isFor(submission)) follower.changed(submissionId);
    if (!isOpen(submission)) this.#forget(submissionId);
  }

  approval({ approvalId }: Approval): void {
    for (const follower of this.#followers)
      if (follower.approvalId === approvalId) follower.changed(approvalId);
  }

  reply(
    { submissionId, thread }: Pick<Turn, "submissionId" | "thread">,
    attempt: number,
    base?: UIMessage,
  ): ReplyWatcher {
    const turn = { submissionId, thread: publicThreadOf(thread) };
    const id = crypto.randomUUID().slice(0, 8);
    const stream = new ReplyChunks(submissionId, () => {
      for (const follower of this.#followers)
        if (follower.isFor(turn)) follower.changed(submissionId, "reply");
    });
    this.#replies.set(submissionId, { id, attempt, base, stream });
    return stream;
  }

  chatReply(submissionId: string, attempt: number, base?: UIMessage): ReplyWatcher {
    return this.reply({ submissionId, thread: MAIN }, attempt, base);
  }

  #forget(submissionId: string): void {
    if (!this.#replies.has(submissionId) || this.#ended.includes(submissionId)) return;
    this.#ended.push(submissionId);
    if (this.#ended.length <= MOST_ENDED) return;
    const oldest = this.#ended.shift();
    if (oldest !== undefined) this.#replies.delete(oldest);
  }

  /** The events of a submission until its end; null for one that is unknown. @throws TooManyFollowersError, InvalidFollowError */
  async submission(
    submissionId: string,
    options: FollowOptions,
  ): Promise<ReadableStream<Uint8Array> | null> {
    const from = fromOf("followSubmission()", options);
    const seen = from === END ? undefined : cursorOf(from);
    const found = await this.kernel.submissions.inspect(submissionId);
    if (!found) return null;
    const { submissionId: id } = found;
    const follower = this.#add(new Follower((turn) => turn.submissionId === id));
    return this.#stream(follower, this.#submissionEvents(follower, id, seen));
  }

  /** The events of a thread's open and later submissions, without an end. @throws TooManyFollowersError, InvalidFollowError */
  async thread(thread: string, options: FollowOptions): Promise<ReadableStream<Uint8Array>> {
    const from = fromOf("followThread()", options);
    const { submissions, historyOf, clock } = this.kernel;
    checkThread(thread);
    await submissions.ready();
    const history = historyOf(thread);
    const position =
      from === undefined
        ? ThreadPosition.now(history, clock.now())
        : ThreadPosition.after(history, from);
    const follower = this.#add(new Follower((turn) => turn.thread === thread));
    return this.#stream(follower, this.#threadEvents(follower, position));
  }

  /** The events of an approval until it is decided; null for one that is unknown. @throws TooManyFollowersError */
  async approvalEvents(approvalId: string): Promise<ReadableStream<Uint8Array> | null> {
    if (!(await this.kernel.approvals.inspect(approvalId))) return null;
    const follower = this.#add(new Follower(() => false, approvalId));
    return this.#stream(follower, this.#decisionEvents(follower, approvalId));
  }

  #add(follower: Follower): Follower {
    if (this.#followers.size >= this.most) {
      this.refused.count++;
      this.refused.at = this.kernel.clock.now();
      throw new TooManyFollowersError(this.most);
    }
    this.#followers.add(follower);
    return follower;
  }

  #stream(follower: Follower, events: Events): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    const close = () => {
      this.#followers.delete(follower);
      follower.close();
    };
    return new ReadableStream({
      // The platform's RPC carries only streams of bytes.
      type: "bytes",
      async pull(controller: ReadableByteStreamController) {
        try {
          const { done, value } = await events.next();
          const line = value ? JSON.stringify(value) : "";
          if (!done) return controller.enqueue(encoder.encode(`${line}\n`));
          close();
          controller.close();
          controller.byobRequest?.respond(0);
        } catch (error) {
          close();
          throw error;
        }
      },
      cancel: close,
    });
  }

  /** @param seen undefined for a caller that was sent the end */
  async *#submissionEvents(
    follower: Follower,
    submissionId: string,
    seen: Seen | undefined,
  ): Events {
    const idOf = (now: Seen) => `${submissionId}:${textOf(now)}`;
    for (;;) {
      const [changed] = follower.take();
      if (seen?.status !== undefined && changed !== undefined && follower.onlyReply(changed))
        yield* this.#replyEvents(submissionId, seen, idOf);
      else {
        const submission = seen && (await this.kernel.submissions.inspect(submissionId));
        if (seen && submission) yield* this.#changes(submission, seen, idOf);
        // It has ended, or was deleted.
        if (!submission || !isOpen(submission)) return yield { id: END, type: "end" };
      }
      yield* follower.wait(this.aliveMs);
      if (follower.isClosed) return;
    }
  }

  async *#threadEvents(follower: Follower, position: ThreadPosition): Events {
    for (let isFirst = true; !follower.isClosed; isFirst = false) {
      if (isFirst || follower.hasStatus(position)) yield* this.#threadChanges(follower, position);
      else
        for (const id of follower.take()) {
          const seen = position.seen(id);
          if (seen) yield* this.#replyEvents(id, seen, (now) => position.idOf(id, now));
        }
      yield* follower.wait(this.aliveMs);
    }
  }

  /** Ends in their order, then open submissions in the order of acceptance. */
  async *#threadChanges(follower: Follower, position: ThreadPosition): Events {
    const { submissions } = this.kernel;
    for (let isOver = false; !isOver; ) {
      const { ended, open, isReset } = position.read(follower.take());
      if (isReset) yield { id: position.idOf(), type: "reset" };
      for (const place of [...ended, ...(open ?? [])]) {
        const { submissionId: id, settledAt } = place;
        const seen = position.take(place);
        const submission = await submissions.inspect(id);
        const isSame = submission && isOpen(submission) === (settledAt === null);
        if (isSame) yield* this.#changes(submission, seen, (now) => position.idOf(id, now));
        // It has ended or was deleted meanwhile. Others may have ended before.
        else follower.changed(id);
        if (isSame && settledAt !== null) position.drop(place);
        else position.keep(place, seen);
      }
      isOver = open !== undefined;
    }
    position.finish();
  }

  async *#decisionEvents(follower: Follower, approvalId: string): Events {
    let seen = "";
    for (;;) {
      const approval = await this.kernel.approvals.inspect(approvalId);
      const status = approval?.status ?? "";
      if (approval && status !== seen)
        yield { id: `${approvalId}:${status}`, type: "approval", approval };
      seen = status;
      if (status !== "pending") return yield { id: END, type: "end" };
      yield* follower.wait(this.aliveMs);
      if (follower.isClosed) return;
    }
  }

  /** What is new of a submission since `seen`, which it changes. */
  async *#changes(
    submission: SubmissionInspection,
    seen: Seen,
    idOf: IdOf,
  ): AsyncGenerator<FollowEvent, void> {
    const { submissionId } = submission;
    const status = `${submission.status.slice(0, 1)}${submission.attempts}`;
    if (!isOpen(submission)) yield* this.#replyEvents(submissionId, seen, idOf);
    if (status !== seen.status) {
      seen.status = status;
      yield { id: idOf(seen), type: "status", submission };
    }
    if (isOpen(submission)) yield* this.#replyEvents(submissionId, seen, idOf);
    else if (submission.status === "completed" && !seen.hasMessage) {
      const message = await this.#storedReply(submission);
      seen.hasMessage = true;
      if (message) yield { id: idOf(seen), type: "message", submissionId, message };
    }
  }

  /** The reply of a completed submission. An isolated turn leaves no message: its reply is its output, if that is a text. */
  async #storedReply({
    submissionId,
    thread,
    messageId,
    output,
  }: SubmissionInspection): Promise<UIMessage | undefined> {
    if (thread !== ISOLATED)
      return messageId === undefined ? undefined : this.kernel.threads.message(thread, messageId);
    if (typeof output !== "string") return undefined;
    return { id: submissionId, role: "assistant", parts: [{ type: "text", text: output }] };
  }

  *#replyEvents(submissionId: string, seen: Seen, idOf: IdOf): Generator<FollowEvent, void> {
    const reply = this.#replies.get(submissionId);
    if (!reply) return;
    const { chunks, isCut } = reply.stream;
    if (seen.reply !== reply.id) Object.assign(seen, { reply: reply.id, chunks: 0, isCut: false });
    if (seen.chunks > chunks.length) seen.chunks = 0;
    if (seen.chunks === chunks.length && seen.isCut === isCut) return;
    const from = seen.chunks;
    const { attempt, base } = reply;
    const part: ReplyPart = {
      type: "reply",
      submissionId,
      attempt,
      from,
      chunks: chunks.slice(from),
      ...(from === 0 && base && { base }),
      ...(isCut && { isCut: true as const }),
    };
    seen.chunks = chunks.length;
    seen.isCut = isCut;
    yield { id: idOf(seen), ...part };
  }
}

function isOpen({ status }: SubmissionInspection): boolean {
  return status === "pending" || status === "running";
}

/** `max` streams of the object are open. */
export class TooManyFollowersError extends Error {
  override readonly name = "TooManyFollowersError";
  constructor(readonly max: number) {
    super(
      `${max} streams of this object are open, which is the limit. Close those that are not read, or raise it: followers({ max }).`,
    );
  }
}
