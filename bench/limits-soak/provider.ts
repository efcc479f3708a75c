/**
 * A provider that counts: its windows slide, and it answers 429 above what it allows. It speaks the protocol of OpenAI's chat
 * completions, and runs outside of the runtime that is killed.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { between, type Random } from "../../test/acceptance/soak/random.ts";
import { type Allowed, TURN, USAGE } from "./words.ts";

const MINUTE_MS = 60_000;
const ANSWER_MS = [50, 400] as const;
const TOKENS = USAGE.input + USAGE.output;

type Refusal = { readonly at: number; readonly why: string };

type Message = {
  readonly role: string;
  readonly content?: string | readonly { readonly type: string; readonly text?: string }[];
};

export class Provider {
  /** When each request of the last minute was taken. */
  #recent: number[] = [];
  /** The most of a minute. */
  most = 0;
  /** When each request was taken, since the start. */
  readonly taken: number[] = [];
  readonly refusals: Refusal[] = [];
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch(() => response.destroy());
  });

  readonly #allowed: Allowed;
  readonly #random: Random;

  constructor(allowed: Allowed, random: Random) {
    this.#allowed = allowed;
    this.#random = random;
  }

  async start(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(0, "127.0.0.1", resolve);
    await promise;
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse(await text(request)) as { readonly messages: readonly Message[] };
    const refused = this.#refusal();
    if (refused) {
      this.refusals.push({ at: Date.now(), why: refused });
      response.writeHead(429, { "content-type": "application/json", "retry-after": "1" });
      response.end(JSON.stringify({ error: { message: `Rate limit reached: ${refused}` } }));
      return;
    }
    this.#take();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    await delay(between(this.#random, ...ANSWER_MS));
    for (const chunk of chunksOf(body.messages))
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    response.end("data: [DONE]\n\n");
  }

  #take(): void {
    const now = Date.now();
    this.#recent.push(now);
    this.taken.push(now);
    this.most = Math.max(this.most, this.#recent.length);
  }

  #refusal(): string | undefined {
    const since = Date.now() - MINUTE_MS;
    this.#recent = this.#recent.filter((at) => at > since);
    const { requestsPerMinute, tokensPerMinute } = this.#allowed;
    if (this.#recent.length >= requestsPerMinute) return "requests";
    if ((this.#recent.length + 1) * TOKENS > tokensPerMinute) return "tokens";
    return undefined;
  }
}

/** The first call of a turn asks for its tool, the next ones end it. */
function chunksOf(messages: readonly Message[]): object[] {
  // After an interruption, Perdure adds messages of its own.
  const asked = messages.findLastIndex((one) => one.role === "user" && TURN.test(textOf(one)));
  const turn = textOf(messages[asked]);
  const isNoted = messages.slice(asked).some(({ role }) => role === "tool");
  const call = {
    ...{ index: 0, id: `call-${turn}`, type: "function" },
    function: { name: "note", arguments: JSON.stringify({ turn }) },
  };
  const delta = isNoted
    ? { role: "assistant", content: `${turn} is noted` }
    : { role: "assistant", tool_calls: [call] };
  const chunk = { id: turn, object: "chat.completion.chunk", created: 0, model: "scripted" };
  const finish_reason = isNoted ? "stop" : "tool_calls";
  const { input: prompt_tokens, output: completion_tokens } = USAGE;
  const usage = { prompt_tokens, completion_tokens, total_tokens: TOKENS };
  return [
    { ...chunk, choices: [{ index: 0, delta, finish_reason: null }] },
    { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }] },
    { ...chunk, choices: [], usage },
  ];
}

function textOf({ content = "" }: Partial<Message> = {}): string {
  if (typeof content === "string") return content;
  return content.map((part) => part.text ?? "").join("");
}
