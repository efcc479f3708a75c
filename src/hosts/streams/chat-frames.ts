/**
 * The replies of a chat's main conversation, as the SDK broadcasts them to its clients. The frames are those of
 * node_modules/agents/docs/chat-agents.md, which useAgentChat reads.
 */

import type { UIMessage, UIMessageChunk } from "ai";
import { MAIN } from "../../submissions/index.ts";
import type { ReplyWatcher } from "../sdk/streamed-reply.ts";
import type { Followers } from "./followers.ts";

const TYPE = "cf_agent_use_chat_response";
/** Turns whose frames are known at the same time. The SDK runs one at a time. */
const MOST_TURNS = 8;

/** The submission that a turn of the chat is for. */
export type FramedTurn = { readonly submissionId: string; readonly attempt: number };

type Frame = {
  readonly type: unknown;
  readonly id: string;
  readonly body: string;
  readonly done: boolean;
  readonly error?: boolean;
  readonly continuation?: boolean;
};

export class ChatFrames {
  readonly #replies = new Map<string, ReplyWatcher>();

  /**
   * @param turnOf the submission of a turn, by the SDK's id of the turn
   * @param messages the conversation
   */
  constructor(
    private readonly followers: Followers,
    private readonly turnOf: (requestId: string) => FramedTurn | undefined,
    private readonly messages: () => readonly UIMessage[],
  ) {}

  /** A message is broadcast to the clients. Anything but a part of a reply is ignored. */
  take(message: unknown): void {
    if (typeof message !== "string" || !message.includes(`"type":"${TYPE}"`)) return;
    const { type, id, body, done, error, continuation } = JSON.parse(message) as Frame;
    if (type !== TYPE) return;
    const reply = this.#replies.get(id) ?? this.#begin(id, continuation === true);
    if (!reply) return;
    if (body !== "" && !error) reply.chunk(JSON.parse(body) as UIMessageChunk);
    if (!done && !error) return;
    reply.end();
    this.#replies.delete(id);
  }

  #begin(id: string, isContinuation: boolean): ReplyWatcher | undefined {
    const turn = this.turnOf(id);
    if (!turn) return undefined;
    const last = isContinuation ? this.messages().at(-1) : undefined;
    const base = last?.role === "assistant" ? structuredClone(last) : undefined;
    const { submissionId, attempt } = turn;
    const reply = this.followers.reply({ submissionId, thread: MAIN }, attempt, base);
    const [oldest] = this.#replies.keys();
    if (this.#replies.size >= MOST_TURNS && oldest !== undefined) this.#replies.delete(oldest);
    this.#replies.set(id, reply);
    return reply;
  }
}
