/** Named threads: each is a session of `agents/sessions`. Every method can be repeated after a crash. */

import { isCompactionMessage, type Session, Sessions } from "agents/sessions";
import type { UIMessage } from "ai";
import { isPartial, withReplies } from "./conversation.ts";

/** How much of a thread the model sees, in stored bytes of its newest messages. */
const HISTORY_BYTES = 8 * 1024 * 1024;

/** Of how many threads the size is remembered. */
const REMEMBERED = 1_000;

/** The newest messages of a thread, and whether more than these are stored. */
export type History = { readonly messages: UIMessage[]; readonly isCut: boolean };

/** Sessions of Perdure, under an id of their own: the app may install `new Sessions()` beside them, as the SDK documents it. */
export class ThreadSessions extends Sessions {
  override readonly capabilityId = "perdure.sessions";
}

export class Threads {
  /** Estimated sizes of threads that are too long to be read whole. */
  readonly #sizes = new Map<string, number>();

  /** @param most how many messages of a thread are kept */
  constructor(
    private readonly sessions: Sessions,
    private readonly most: () => number = () => Number.POSITIVE_INFINITY,
  ) {}

  async history(thread: string): Promise<History> {
    const recent = await this.#session(thread).getRecentHistory(HISTORY_BYTES);
    // The messages that a summary replaces are still stored.
    const isCompacted = recent.messages.some((message) => isCompactionMessage(message));
    const isCut = recent.truncated || isCompacted;
    return { messages: recent.messages as UIMessage[], isCut };
  }

  /**
   * Deletes the oldest messages of a thread when it is a tenth over the limit, so that most turns delete none.
   * @param newest what was just read of it
   * @param except ids of the messages of the running turn
   */
  async prune(thread: string, newest: History, except: readonly string[]): Promise<void> {
    const most = this.most();
    const size = await this.#sizeOf(thread, newest, except.length);
    if (size <= most * 1.1) return;
    const session = this.#session(thread);
    const all = newest.isCut ? await session.getHistoryRowStats() : newest.messages;
    const oldest = all.slice(0, Math.max(0, all.length - most)).map(({ id }) => id);
    await session.deleteMessages(oldest.filter((id) => !except.includes(id)));
    this.#sizes.delete(thread);
  }

  /** A long thread is counted once since the last start; after that each turn adds its own messages. */
  async #sizeOf(thread: string, { messages, isCut }: History, added: number): Promise<number> {
    if (!isCut || this.most() === Number.POSITIVE_INFINITY) return messages.length;
    const known = this.#sizes.get(thread);
    const size =
      known === undefined
        ? (await this.#session(thread).getHistoryRowStats()).length
        : known + added;
    if (this.#sizes.size >= REMEMBERED) this.#sizes.clear();
    this.#sizes.set(thread, size);
    return size;
  }

  async messages(thread: string): Promise<UIMessage[]> {
    return (await this.#session(thread).getHistory()) as UIMessage[];
  }

  /** Appends messages in order; those that are there stay where they are. */
  async append(thread: string, messages: readonly UIMessage[]): Promise<void> {
    const session = this.#session(thread);
    for (const message of messages) await session.appendMessage(message);
  }

  /**
   * Appends the messages of a turn. Removes what earlier attempts have left of its reply, and partial replies to the same
   * messages. If others have written to the thread since an earlier attempt, the messages move to the end: a model answers
   * what comes last.
   */
  async ask(
    thread: string,
    messages: readonly UIMessage[],
    { replyId, isAgain }: { replyId: string; isAgain: boolean },
  ): Promise<void> {
    const session = this.#session(thread);
    const ids = messages.map(({ id }) => id);
    // Mostly they are new; then the thread is not read.
    const isNew = !isAgain && (await this.has(thread, [...ids, replyId])).size === 0;
    if (isNew) return this.append(thread, messages);
    await this.#dropEarlier(session, ids, replyId);
    await this.append(thread, messages);
    const leaf = await session.getLatestLeaf();
    // Before a first attempt, messages with these ids can only be those of another submission.
    if (!isAgain || !leaf || ids.includes(leaf.id)) return;
    await session.deleteMessages(ids);
    await this.append(thread, messages);
  }

  async has(thread: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
    const session = this.#session(thread);
    const found = await Promise.all(ids.map((id) => session.getMessage(id)));
    return new Set(found.flatMap((message) => (message ? [message.id] : [])));
  }

  /** The reply of that id, whole or partial. */
  async replyOf(thread: string, id: string): Promise<UIMessage | undefined> {
    return ((await this.#session(thread).getMessage(id)) as UIMessage | null) ?? undefined;
  }

  /** Stores a reply at the end of the thread, or in the place of an earlier one of its id. */
  async reply(thread: string, message: UIMessage): Promise<void> {
    // An attempt that was given up may be late: it must not replace the reply of a later one.
    const there = isPartial(message) && (await this.replyOf(thread, message.id));
    if (there && !isPartial(there)) return;
    await this.#session(thread).upsertMessage(message);
  }

  /** Removes messages from a thread, with their reply and other replies that directly follow them. */
  async removeMessages(thread: string, ids: readonly string[], replyId: string): Promise<void> {
    const session = this.#session(thread);
    const stored = await storedWithReplies(session, ids);
    await session.deleteMessages([...new Set([...stored, replyId])]);
  }

  async clear(thread: string): Promise<void> {
    await this.#session(thread).clearMessages();
  }

  async #dropEarlier(session: Session, ids: readonly string[], replyId: string): Promise<void> {
    const replies = new Set([...(await storedWithReplies(session, ids)), replyId]);
    for (const id of ids) replies.delete(id);
    const found = await Promise.all([...replies].map((id) => session.getMessage(id)));
    const dropped = found.flatMap((reply) =>
      reply && (reply.id === replyId || isPartial(reply as UIMessage)) ? [reply.id] : [],
    );
    if (dropped.length > 0) await session.deleteMessages(dropped);
  }

  #session(thread: string): Session {
    return this.sessions.session(`perdure:${thread}`);
  }
}

/** Ids of those messages that are stored, and of the replies that directly follow each of them. */
async function storedWithReplies(session: Session, ids: readonly string[]): Promise<string[]> {
  // Ids and roles only, so that a long thread is not loaded.
  return withReplies(await session.getHistoryRowStats(), new Set(ids));
}

/**
 * A `UIMessage` whose type survives the platform's RPC, which turns a result with an `unknown` in it into `never`. It is
 * assignable to `UIMessage`. To read `providerMetadata`, assign the message to a `UIMessage`.
 */
export type ThreadMessage = OverRpc<UIMessage>;

/** `unknown` is written out, and records of any depth are left out: RPC's types follow them without end. */
type OverRpc<T> = unknown extends T
  ? NonNullable<unknown> | null | undefined
  : T extends (infer Item)[]
    ? OverRpc<Item>[]
    : T extends object
      ? { [K in keyof T as string extends keyof NonNullable<T[K]> ? never : K]: OverRpc<T[K]> }
      : T;
