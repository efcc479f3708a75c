/**
 * Traces and metrics of ended submissions and workflows, for an OpenTelemetry collector, as OTLP over HTTP with JSON. An entry
 * has only an id: the host builds the body from its rows when the entry is sent, so that it has what happened meanwhile.
 * https://opentelemetry.io/docs/specs/otlp/#otlphttp
 */

import { unlessAborted } from "../../core/clock.ts";
import { because, transientOf } from "../../core/failures.ts";
import type { Json } from "../../core/json.ts";
import { oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { POLICY } from "../../outbox/delivery/policy.ts";
import type { Adapter, AdapterContext, Delivery } from "../../outbox/destinations/adapter.ts";
import type { OtlpDestination } from "../../outbox/destinations/index.ts";
import {
  checked,
  excerptOf,
  problemOfSecret,
  readSecret,
  SECRET_NAME,
} from "../../outbox/destinations/requests.ts";
import { hostOf, problemOfHost, problemOfUrl } from "../../outbox/destinations/webhook.ts";
import {
  NotNeededError,
  RefusedError,
  STILL_WAITING,
  UndeliverableError,
} from "../../outbox/errors.ts";

/** The collector of `traces()`. */
export type TracesOptions = Omit<OtlpDestination, "kind">;

/** The event of an entry: an ended submission, or an ended workflow. */
export type TelemetryEvent =
  | { readonly signal: "traces" | "metrics"; readonly submissionId: string }
  | { readonly signal: "traces"; readonly workflowId: string };

/** The body of a request; null if its subject was deleted. Not `isComplete`: deliveries of its end still wait. */
export type TelemetryOf = (
  event: TelemetryEvent,
) => Promise<{ readonly body: Json; readonly isComplete: boolean } | null>;

/** How long telemetry waits for the deliveries of the submission's end. */
const COMPLETE_MS = 10 * 60_000;
/** When it looks again first. Later looks are rarer, because each is an attempt. */
const LOOK_AGAIN_MS = 3_000;
/** Answers that another attempt does not change: https://opentelemetry.io/docs/specs/otlp/#failures-1 */
const isFinal = (status: number) =>
  status >= 400 && status < 500 && ![401, 403, 404, 408, 429].includes(status);

export const COLLECTOR = optionsOf<OtlpDestination>()({
  kind: oneOf(["otlp"]),
  url: checked<string>(problemOfUrl),
  headers: SECRET_NAME.optional(),
  policy: POLICY.optional(),
});

/** The kind of destination. */
export const collectors = (telemetryOf: TelemetryOf) => ({
  schema: COLLECTOR,
  connect({
    env,
    now,
    allowPrivateAddresses,
    reportProblem,
  }: Pick<
    AdapterContext,
    "env" | "now" | "allowPrivateAddresses" | "reportProblem"
  >): Adapter<OtlpDestination> {
    let hasReported = false;
    return {
      isTelemetry: true,
      timeoutMs: 15_000,
      maxBytes: Number.POSITIVE_INFINITY,
      keyOf: ({ url }) => `otlp ${url}`,
      labelOf: ({ url }) => hostOf(url),
      problemOf: ({ url, headers }) =>
        problemOfHost(url, allowPrivateAddresses) ??
        (headers === undefined ? undefined : problemOfSecret(env, "headers", headers)),
      async deliver({ url, headers }, delivery: Delivery, signal, { createdAt }) {
        const problem = problemOfHost(url, allowPrivateAddresses);
        if (problem) {
          throw new UndeliverableError(invalidMessage("url", problem.given, problem.expected));
        }
        const event = delivery.event as TelemetryEvent;
        const telemetry = await telemetryOf(event);
        if (!telemetry) throw new NotNeededError("Its submission or workflow was deleted");
        const age = now() - createdAt;
        if (!telemetry.isComplete && age < COMPLETE_MS) {
          // A RefusedError would hold the telemetry of all other submissions as well.
          throw retryable(STILL_WAITING, {
            "retry-after-ms": String(Math.max(LOOK_AGAIN_MS, age / 2)),
          });
        }
        const own = headers === undefined ? {} : await headersOf(env, headers, signal);
        const address = addressOf(url, event.signal);
        const answer = await send(address, telemetry.body, own, { signal, now });
        const rejected = rejectedIn(answer);
        if (rejected === undefined || hasReported) return;
        hasReported = true;
        const ids = { to: hostOf(url), ...event };
        reportProblem({ type: "outbox:telemetry", level: "warn", message: rejected, ids });
      },
    };
  },
});

function addressOf(base: string, signal: TelemetryEvent["signal"]): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/${signal}`;
  return url.href;
}

/** @throws Error without a value of the secret; it is retried, because to set it is all the repair that is needed */
async function headersOf(
  env: object,
  name: string,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const remedy = `Set it: wrangler secret put ${name}`;
  const missing = (problem: string) => because(new Error(problem), "secret-missing", name);
  const value = await unlessAborted(readSecret(Reflect.get(env, name)), signal);
  if (typeof value !== "string" || value.trim() === "") {
    throw missing(`The secret ${name} is not set. ${remedy}`);
  }
  const headers: Record<string, string> = {};
  for (const pair of value
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean)) {
    const at = pair.indexOf("=");
    const key = pair.slice(0, at).trim();
    const text = decoded(pair.slice(at + 1).trim());
    if (at < 1 || !/^[\w!#$%&'*+.^`|~-]+$/.test(key) || text === undefined) {
      throw missing(`The secret ${name} is not of the form key=value,key2=value2. ${remedy}`);
    }
    headers[key] = text;
  }
  return headers;
}

/** Values are percent-encoded: https://opentelemetry.io/docs/specs/otel/protocol/exporter/#specifying-headers-via-environment-variables */
function decoded(text: string): string | undefined {
  try {
    const value = decodeURIComponent(text);
    return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

async function send(
  url: string,
  body: Json,
  own: Record<string, string>,
  { signal, now }: { readonly signal: AbortSignal } & Pick<AdapterContext, "now">,
): Promise<string> {
  const { host } = new URL(url);
  const headers = { "content-type": "application/json", "user-agent": "Perdure", ...own };
  const init = {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    redirect: "manual",
    signal,
  } as const;
  const response = await fetch(url, init).catch((cause) => {
    signal.throwIfAborted();
    throw new Error(`${host} could not be reached: ${cause.message}`, { cause });
  });
  const excerpt = await excerptOf(response);
  if (response.ok) return excerpt;
  const message = `${host} answered ${response.status}${excerpt === "" ? "" : `: ${excerpt}`}`;
  const answered = <E extends Error>(error: E) => because(error, "answered", response.status);
  if (isFinal(response.status)) throw answered(new UndeliverableError(message));
  const retryAfter = response.headers.get("retry-after");
  const responseHeaders = retryAfter === null ? {} : { "retry-after": retryAfter };
  const error = retryable(message, responseHeaders, response.status);
  const retryAfterMs = transientOf(error, now())?.retryAfterMs;
  throw answered(retryAfterMs === undefined ? error : new RefusedError(message, { retryAfterMs }));
}

/** A failed attempt, as `transientOf` of core/failures.ts reads it. */
function retryable(
  message: string,
  responseHeaders: Readonly<Record<string, string>>,
  statusCode = 503,
) {
  return Object.assign(new Error(message), { statusCode, responseHeaders });
}

/** The part that the collector has rejected: https://opentelemetry.io/docs/specs/otlp/#partial-success-1 */
function rejectedIn(answer: string): string | undefined {
  try {
    const { partialSuccess = {} } = JSON.parse(answer) as {
      partialSuccess?: Readonly<Record<string, unknown>>;
    };
    const { rejectedSpans = 0, rejectedDataPoints = 0, errorMessage } = partialSuccess;
    const count = Number(rejectedSpans) + Number(rejectedDataPoints);
    if (!(count > 0)) return undefined;
    return `The collector has rejected ${count} spans or data points: ${String(errorMessage ?? "without a reason")}`;
  } catch {
    return undefined; // an empty answer, or none of JSON
  }
}
