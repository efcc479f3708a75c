/** Consumes a queue: each message is an arrival. Without Zod. */

import { systemClock } from "../../../../core/clock.ts";
import { eachOf } from "../../../../core/each.ts";
import { jsonOf, lostInJson, preview } from "../../../../core/json.ts";
import type { Duration } from "../../../../core/options/options.ts";
import { countOf } from "../../../../core/options/options.ts";
import type { Offered } from "../../offer.ts";
import {
  checkOnly,
  checkSource,
  durationOf,
  InvalidBodyError,
  logRefused,
  nameOf,
  rawArrivalOf,
  type SchemaOption,
  type SourceOptions,
  sourceOf,
} from "./source.ts";

/** The `queue` handler of a Worker. */
export type QueueHandler = (
  batch: MessageBatch,
  env: Cloudflare.Env,
  ctx: ExecutionContext,
) => Promise<void>;

export type QueueOptions<Body, Target> = SourceOptions<Body, Target> &
  SchemaOption<Body> & {
    /**
     * The name of the source. Messages are deduplicated by it and their id.
     * @default "queue", or `queue:` and the name of the queue where `queue` is given
     */
    readonly name?: string;
    /**
     * Only batches of this queue. Others go to `next`.
     * @default batches of every queue
     */
    readonly queue?: string;
    /**
     * Messages of a batch that are offered at the same time, from 1 to 100.
     * @default 10
     */
    readonly concurrency?: number;
    /**
     * The delay of the first retry of a message. It doubles with each attempt, up to 15 minutes. A message whose agent has no
     * room is retried when the agent expects to have room.
     * @default "10 seconds"
     */
    readonly retryDelay?: Duration;
    /**
     * The time limit of a batch, at most 14 minutes: the platform ends an invocation after 15. Messages without an answer are
     * retried after it.
     * @default "5 minutes"
     */
    readonly timeout?: Duration;
    /**
     * The time limit of one message, at most 14 minutes. After it the message is retried, and its place is free for the next
     * one. Its handler continues, and the agent may still accept the message: the retry is a duplicate then.
     * @default "30 seconds"
     */
    readonly messageTimeout?: Duration;
  };

const NAMES = ["schema", "queue", "concurrency", "retryDelay", "timeout", "messageTimeout"];
const MAX_BATCH = 100;
const MAX_TIMEOUT_MS = 14 * 60_000;
const MAX_DELAY_SECONDS = 15 * 60;
/** https://developers.cloudflare.com/queues/platform/limits/ */
const LONGEST_DELAY_SECONDS = 12 * 3_600;

/**
 * Makes the `queue` handler of a Worker. A message is acknowledged when an agent has accepted it, has accepted it before, or
 * when it was filtered. Otherwise it is retried, on its own, until the queue's `max_retries` and its dead letter queue.
 *
 * @param next handles batches of other queues; without it they fail, so that no message is lost
 * @throws InvalidOptionError
 * @example
 * export default {
 *   queue: queue({
 *     agent: ({ body }, env) => getAgentByName(env.Orders, body.customer),
 *     handle: ({ body }, agent) => agent.submitMessages([messageOf(body)]),
 *     schema: z.object({ customer: z.string() }),
 *   }),
 * };
 */
export function queue<Body, Target>(
  options: QueueOptions<Body, Target>,
  next?: QueueHandler,
): QueueHandler {
  checkSource("the options of queue()", options, NAMES);
  const { queue: only, concurrency = 10, retryDelay = "10 seconds" } = options;
  checkOnly("queue", only, "the name of a queue", next);
  const name = nameOf(options.name ?? (only === undefined ? "queue" : `queue:${only}`));
  const lanes = countOf("concurrency", concurrency, MAX_BATCH);
  const firstDelay = durationOf("retryDelay", retryDelay, MAX_DELAY_SECONDS * 1_000) / 1_000;
  const timeoutMs = durationOf("timeout", options.timeout ?? "5 minutes", MAX_TIMEOUT_MS);
  const { messageTimeout = "30 seconds" } = options;
  const messageMs = durationOf("messageTimeout", messageTimeout, MAX_TIMEOUT_MS);
  const receive = sourceOf(name, options);

  const settle = (message: Message, { verdict, error, retryAfter }: Offered) => {
    if (verdict !== "refused") return message.ack();
    logRefused(name, message.id, error);
    const backoff = Math.min(
      firstDelay * 2 ** Math.min(message.attempts - 1, 20),
      MAX_DELAY_SECONDS,
    );
    const delaySeconds = Math.min(Math.ceil(retryAfter ?? backoff), LONGEST_DELAY_SECONDS);
    message.retry({ delaySeconds });
  };
  const offered = async ({ id, body }: Message, env: object, msLeft: number): Promise<Offered> => {
    const lost = body === undefined ? "is undefined" : lostInJson(body);
    if (lost !== undefined) {
      const problem = `Invalid body of message ${id}: ${lost.trim()}, which JSON cannot hold. Send JSON or a text.`;
      return { verdict: "refused", error: new InvalidBodyError(problem) };
    }
    const raw = JSON.stringify(body);
    const arrival = await rawArrivalOf({ source: name, id, type: "" }, jsonOf(body) ?? null, raw);
    return receive(arrival, env, msLeft);
  };
  return async (batch, env, ctx) => {
    if (only !== undefined && batch.queue !== only) {
      if (next) return next(batch, env, ctx);
      throw new Error(
        `Invalid queue ${preview(batch.queue)}: queue() consumes ${preview(only)} only. Pass a handler of other queues as its second argument.`,
      );
    }
    const endsAt = systemClock.now() + timeoutMs;
    await eachOf(batch.messages, lanes, async (message) => {
      const msLeft = endsAt - systemClock.now();
      if (msLeft > 0) settle(message, await offered(message, env, Math.min(msLeft, messageMs)));
      else message.retry();
    });
  };
}
