/** Handles cron triggers: each occurrence is an arrival. Without Zod. */

import { preview } from "../../../../core/json.ts";
import type { Duration } from "../../../../core/options/options.ts";
import { countOf } from "../../../../core/options/options.ts";
import type { Offered } from "../../offer.ts";
import { sha256Hex } from "../verify.ts";
import {
  checkOnly,
  checkSource,
  durationOf,
  logRefused,
  nameOf,
  rawArrivalOf,
  type SourceOptions,
  sourceOf,
} from "./source.ts";

/** The `scheduled` handler of a Worker. */
export type ScheduledHandler = (
  controller: ScheduledController,
  env: Cloudflare.Env,
  ctx: ExecutionContext,
) => Promise<void>;

/** The body of an occurrence. */
export type Occurrence = {
  /** The cron expression, as in the Worker's configuration. */
  readonly cron: string;
  /** When it was due, epoch milliseconds. */
  readonly scheduledTime: number;
};

export type ScheduledOptions<Target> = SourceOptions<Occurrence, Target> & {
  /**
   * The name of the source. Occurrences are deduplicated by it, their cron expression and their time.
   * @default "scheduled", or e.g. `scheduled:0_9_*_*_*` where `cron` is given
   */
  readonly name?: string;
  /**
   * Only occurrences of this cron expression. Others go to `next`.
   * @default occurrences of every expression
   */
  readonly cron?: string;
  /**
   * Attempts within one invocation, from 1 to 7.
   * @default 3
   */
  readonly attempts?: number;
  /**
   * The delay before the second attempt, at most a minute. It doubles with each attempt, up to a minute. An agent without room
   * is asked again when it expects to have room, within a minute.
   * @default "2 seconds"
   */
  readonly retryDelay?: Duration;
  /**
   * The time limit of an attempt, at most a minute.
   * @default "30 seconds"
   */
  readonly timeout?: Duration;
};

const NAMES = ["cron", "attempts", "retryDelay", "timeout"];
const MAX_MS = 60_000;
/** An invocation has 15 minutes, and each attempt takes up to two of them: its time limit and the delay before it. */
const MAX_ATTEMPTS = 7;

/**
 * Makes the `scheduled` handler of a Worker. The time of the occurrence is the key: the agent runs it once, however often the
 * platform or a test calls the handler.
 *
 * The handler rejects when its last attempt has failed, so that the platform reports the invocation as failed.
 * If the platform repeats a failed invocation, the key is the same. It leaves `controller.noRetry()` to the app.
 *
 * @param next handles other cron expressions; without it they fail
 * @throws InvalidOptionError
 * @example
 * export default {
 *   scheduled: scheduled({
 *     agent: (_, env) => getAgentByName(env.Reports, "daily"),
 *     handle: ({ id, body }, agent) => agent.runWorkflow("REPORT", body, { id }),
 *   }),
 * };
 */
export function scheduled<Target>(
  options: ScheduledOptions<Target>,
  next?: ScheduledHandler,
): ScheduledHandler {
  checkSource("the options of scheduled()", options, NAMES);
  const { cron: only, attempts = 3, retryDelay = "2 seconds", timeout = "30 seconds" } = options;
  checkOnly("cron", only, "a cron expression, as in the configuration of the Worker", next);
  const name = nameOf(
    options.name ?? (only === undefined ? "scheduled" : `scheduled:${only.replace(/\s/g, "_")}`),
  );
  const maxAttempts = countOf("attempts", attempts, MAX_ATTEMPTS);
  const firstDelayMs = durationOf("retryDelay", retryDelay, MAX_MS);
  const timeoutMs = durationOf("timeout", timeout, MAX_MS);
  const receive = sourceOf(name, options);

  return async (controller, env, ctx) => {
    const { cron, scheduledTime } = controller;
    if (only !== undefined && cron !== only) {
      if (next) return next(controller, env, ctx);
      throw new Error(
        `Invalid cron expression ${preview(cron)}: scheduled() handles ${preview(only)} only. Pass a handler of other expressions as its second argument.`,
      );
    }
    const body = { cron, scheduledTime };
    const raw = JSON.stringify(body);
    const digest = (await sha256Hex(cron)).slice(0, 16);
    const id = `${scheduledTime}-${digest}`;
    const arrival = await rawArrivalOf({ source: name, id, type: cron }, body, raw);
    let offered: Offered | undefined;
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      offered = await receive(arrival, env, timeoutMs);
      if (offered.verdict !== "refused") return;
      logRefused(name, id, offered.error);
      if (attempt === maxAttempts) break;
      const backoffMs = firstDelayMs * 2 ** (attempt - 1);
      const seconds = offered.retryAfter;
      await sleep(Math.min(seconds === undefined ? backoffMs : seconds * 1_000, MAX_MS));
    }
    throw offered?.error;
  };
}

const sleep = (ms: number) => new Promise<void>((resolve) => void setTimeout(resolve, ms));
