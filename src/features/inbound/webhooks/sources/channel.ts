/** Receives the events of a channel of the agents SDK: each one is an arrival. Without Zod. */

import type {
  ChannelIngress,
  ChannelIngressEventInput,
  ChannelIngressResult,
} from "agents/experimental/channels";
import { bytesUpTo } from "../../../../core/bytes-up-to.ts";
import type { Json } from "../../../../core/json.ts";
import type { Duration } from "../../../../core/options/options.ts";
import { countOf, invalidOption } from "../../../../core/options/options.ts";
import type { Destination } from "../../../../outbox/destinations/index.ts";
import { isNameless, type Offered } from "../../offer.ts";
import type { RawArrival } from "../../protocol.ts";
import type { ApprovalClick } from "../arrival.ts";
import {
  checkSource,
  durationOf,
  logRefused,
  nameOf,
  rawArrivalOf,
  type SourceOptions,
  sourceOf,
} from "./source.ts";

/** Answers the requests that the channel owns. Null: the request is another one. */
export type ChannelReceiver = (
  request: Request,
  env: object,
  ctx: { waitUntil(work: Promise<unknown>): void },
) => Promise<Response | null>;

export type ChannelOptions<Target> = SourceOptions<ChannelIngressEventInput, Target> & {
  /** The name of the source. Events are deduplicated by it and their `eventId`. */
  readonly name: string;
  /**
   * The name of the secret in `env` that has the bot's token, for answers to Slack and Telegram.
   * @default none: `arrival.reply` is undefined
   */
  readonly token?: string;
  /**
   * Bytes of a request, at most 25 MiB.
   * @default 1_048_576
   */
  readonly maxBytes?: number;
  /**
   * When the request is answered with 503 at the latest, at most 30 seconds. The work continues.
   * @default "2.5 seconds", because Slack waits for three
   */
  readonly timeout?: Duration;
};

const NAMES = ["token", "maxBytes", "timeout"];
const MIB = 1_048_576;
const MAX_TIMEOUT_MS = 30_000;
/** Of one request. */
const MAX_EVENTS = 100;
const RETRY_AFTER = "30";

/**
 * Makes a receiver of a channel's ingress, such as `slackWebhook()` of `agents/experimental/channels/slack`.
 * The ingress checks who has sent the request. An event of the type `approval-response` has a `click`.
 *
 * @throws InvalidOptionError
 * @example
 * const slack = channel(slackWebhook({ signingSecret }), {
 *   name: "slack",
 *   token: "SLACK_BOT_TOKEN",
 *   agent: ({ body }, env) => getAgentByName(env.Assistant, body.thread.id),
 *   handle: ({ body, reply }, agent) => agent.submitMessages([messageOf(body)], { notify: reply }),
 * });
 * export default {
 *   fetch: async (request, env, ctx) =>
 *     (await slack(request, env, ctx)) ?? new Response("Not found", { status: 404 }),
 * };
 */
export function channel<Target>(
  ingress: ChannelIngress<unknown>,
  options: ChannelOptions<Target>,
): ChannelReceiver {
  checkSource("the options of channel()", options, NAMES);
  if (typeof ingress?.receive !== "function") {
    throw invalidOption("ingress", ingress, "an ingress, e.g. of slackWebhook()");
  }
  const { token, maxBytes = MIB, timeout = "2.5 seconds" } = options;
  if (token !== undefined && !/^[A-Za-z_]\w{0,99}$/.test(token)) {
    // It may be the token itself.
    throw invalidOption("token", "(not shown)", 'the name of a secret, e.g. "SLACK_BOT_TOKEN"');
  }
  const name = nameOf(options.name);
  const limit = countOf("maxBytes", maxBytes, 25 * MIB);
  const timeoutMs = durationOf("timeout", timeout, MAX_TIMEOUT_MS);
  const receive = sourceOf(name, options, (body) => {
    const event = body as unknown as ChannelIngressEventInput;
    const click = clickOf(event);
    return {
      reply: token === undefined ? undefined : replyOf(event, token),
      ...(click && { click }),
    };
  });
  return async (request, env, ctx) => {
    const received = await receivedBy(ingress, request, limit, name);
    if (received === null || received instanceof Response) return received;
    const { events, response } = received;
    if (events.length > MAX_EVENTS) {
      return Response.json({ error: `Expected at most ${MAX_EVENTS} events` }, { status: 400 });
    }
    const waitUntil = (work: Promise<unknown>) => ctx.waitUntil(work);
    const work = events.map(async ({ event }) => {
      const arrival = await arrivalIn(name, event);
      const offered = await receive(arrival, env, timeoutMs, { waitUntil });
      if (offered.verdict === "refused") logRefused(name, arrival.id, offered.error);
      return offered;
    });
    return answerOf(await Promise.all(work)) ?? response;
  };
}

function arrivalIn(source: string, event: ChannelIngressEventInput): Promise<RawArrival> {
  const text = JSON.stringify(event);
  return rawArrivalOf(
    { source, id: event.eventId, type: event.type },
    JSON.parse(text) as Json,
    text,
  );
}

/** The answer when an event was refused: the sender repeats the request, and the accepted ones are duplicates then. */
function answerOf(events: readonly Offered[]): Response | undefined {
  const refused = events.filter(({ verdict }) => verdict === "refused");
  if (refused.length === 0) return undefined;
  const waits = refused.flatMap(({ retryAfter }) => retryAfter ?? []);
  // A retry would name the same agents.
  if (refused.every(({ error }) => isNameless(error)))
    return Response.json({ verdict: "refused" }, { status: 400 });
  const isUnreachable = refused.some((each) => each.isUnreachable);
  const status = isUnreachable ? 503 : waits.length > 0 ? 429 : 500;
  const headers = {
    "retry-after": waits.length > 0 ? String(Math.ceil(Math.max(...waits))) : RETRY_AFTER,
  };
  return Response.json({ verdict: "refused" }, { status, ...(status !== 500 && { headers }) });
}

/** The arrival that the ingress has read, its answer if there is none to offer, or null for a request of another source. */
async function receivedBy(
  ingress: ChannelIngress<unknown>,
  request: Request,
  maxBytes: number,
  name: string,
): Promise<ChannelIngressResult | Response | null> {
  // The app reads the request itself if the ingress does not own it.
  const copy = request.clone();
  const { url, method, headers } = request;
  try {
    const body = copy.body && (await bytesUpTo(copy.body, maxBytes));
    if (body === undefined) {
      logRefused(name, "", new Error(`More than ${maxBytes} bytes`));
      return Response.json({ verdict: "refused" }, { status: 413 });
    }
    const received = await ingress.receive(new Request(url, { method, headers, body }));
    const isEmpty = received && (received.events.length === 0 || !received.response.ok);
    return isEmpty ? received.response : received;
  } catch (error) {
    logRefused(name, "", error);
    return Response.json({ verdict: "refused" }, { status: 500 });
  }
}

/** To where the event came from: Slack's and Telegram's addresses have different fields. */
function replyOf(
  { replySurface }: ChannelIngressEventInput,
  token: string,
): Destination | undefined {
  const { channelId, userId, threadTs, chatId, messageThreadId, replyToMessageId } =
    (replySurface?.address as Record<string, string | number | undefined> | undefined) ?? {};
  const channel = channelId ?? userId;
  const reply =
    chatId !== undefined
      ? {
          kind: "telegram",
          token,
          chat: chatId,
          ...(messageThreadId !== undefined && { thread: messageThreadId }),
          ...(replyToMessageId !== undefined && { replyTo: replyToMessageId }),
        }
      : channel !== undefined && {
          kind: "slack",
          token,
          channel,
          ...(threadTs !== undefined && { thread: threadTs }),
        };
  return (reply || undefined) as unknown as Destination | undefined;
}

function clickOf(event: ChannelIngressEventInput): ApprovalClick | undefined {
  if (event.type !== "approval-response") return undefined;
  const { approvalId, decision, actor } = event;
  const by = actor?.username === undefined ? actor?.id : `${actor.id} (${actor.username})`;
  const decided = decision === "approve" ? "grant" : "reject";
  return { approvalId, decision: decided, agent: undefined, by: (by ?? "unknown").slice(0, 200) };
}
