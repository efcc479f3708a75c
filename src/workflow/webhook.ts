/** `step.webhook()`: a workflow waits for an arrival at its agent, or for a request to a URL of its own. */

import * as z from "zod";
import { type Json, preview } from "../core/json.ts";
import { duration, list, optionsOf, text } from "../core/options/option-schemas.ts";
import type { Duration } from "../core/options/options.ts";
import { isPlainObject } from "../core/options/options.ts";
import type { AnySchema, OutputOf, SchemaMismatchError } from "../core/schema/schema.ts";
import {
  WebhookBodyError,
  WebhookCancelledError,
  WebhookError,
  WebhookTimeoutError,
} from "./errors.ts";
import { KEY, type Refuse, readStep, refusalOf, sizedForms, TIMEOUT, takenBy } from "./options.ts";
import { type CallOf, type StepCall, useName } from "./step-call.ts";
import {
  openRow,
  type PassedWait,
  type Refusal,
  type Timed,
  takeWait,
  type WaitAsk,
} from "./wait.ts";
import type { WaitReceipt } from "./waits/protocol.ts";

type CommonOptions<Schema extends AnySchema | undefined> = {
  /**
   * What the body must match, as a schema of any library that says its JSON Schema, e.g. Zod. An arrival that its JSON Schema
   * refuses is ignored.
   * @default none: any body
   */
  schema?: Schema;
  /**
   * How long to wait, e.g. `"3 days"` or milliseconds, at most 365 days.
   * @default "24 hours"
   */
  timeout?: Duration;
  /** Tells repeated uses of one step name apart, e.g. in a loop. */
  key?: string;
};

/** At least one of `from`, `type` and `match`. */
export type WebhookOptions<Schema extends AnySchema | undefined = undefined> =
  CommonOptions<Schema> & {
    /** The name of the source, e.g. `"stripe"`. */
    from?: string;
    /** What happened, e.g. `"payment_intent.succeeded"`; one of some types. */
    type?: string | readonly string[];
    /**
     * Values that fields of the body must have, by the path of each: names and indexes with dots between them. At most 10.
     * @example { "data.object.metadata.orderId": id, "items.0.sku": "A7" }
     */
    match?: Readonly<Record<string, WebhookValue>>;
    /**
     * How long before the step an arrival may have come, at most one day. The oldest is returned that has answered no other
     * `step.webhook()` of this workflow instance.
     * @default "5 minutes"
     */
    lookback?: Duration;
    url?: false;
  };

/** Waits for a request to a URL of the step's own. */
export type WebhookUrlOptions<Schema extends AnySchema | undefined = undefined> =
  CommonOptions<Schema> & { url: true };

/** An arrival that a step has waited for. */
export type WebhookArrival<Schema extends AnySchema | undefined = undefined> = {
  /** The name of its source; `"url"` for a request to the step's own URL. */
  readonly source: string;
  /** The sender's id of it; for a request to the step's own URL the SHA-256 of its body. */
  readonly id: string;
  /** What happened; "" where the sender has no types. */
  readonly type: string;
  /** The body, or what the schema has made of it. */
  readonly body: Schema extends AnySchema ? OutputOf<Schema> : Json;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
};

/** A URL to hand out, and the wait for its request. */
export type WebhookUrl<Schema extends AnySchema | undefined = undefined> = {
  /** Takes one POST with JSON, a form or text, of up to 1 MiB. */
  readonly url: string;
  /** Waits for the request. @throws as `step.webhook()` */
  wait(): Promise<WebhookArrival<Schema>>;
};

const MOST_PATHS = 10;
const MOST_NAMES = 20;
const MOST_TYPES = 20;
const MOST_LENGTH = 500;

export interface WebhookSteps {
  /**
   * Waits for an arrival that the agent accepts: by its source, its type, and fields of its body. Idempotent per
   * workflow, instance, step name and key: an arrival that has come answers a restart at once. All open steps that an arrival
   * is for get it. An arrival that only `schema` itself refuses, e.g. by a refinement, is not the one: the step waits for
   * another one, up to ten times within the same `timeout`.
   *
   * @throws WebhookTimeoutError when no arrival came within `timeout`
   * @throws WebhookBodyError when the last of these is refused, too
   * @throws WebhookCancelledError when the wait was cancelled at the agent
   * @example
   * const match = { "data.object.metadata.orderId": orderId };
   * const { body } = await step.webhook("paid", { from: "stripe", type: "payment_intent.succeeded", match, timeout: "3 days" });
   */
  webhook<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: WebhookUrlOptions<Schema>,
  ): Promise<WebhookUrl<Schema>>;
  webhook<Schema extends AnySchema | undefined = undefined>(
    name: string,
    options: WebhookOptions<Schema>,
  ): Promise<WebhookArrival<Schema>>;
}

export const STEPS = {
  webhook: (callOf: CallOf) =>
    (async (name: string, options: WebhookOptions) =>
      runWebhook(callOf(name), options)) as WebhookSteps["webhook"],
};

/** Waits, and returns the arrival, or throws why none has come. */
async function runWebhook<Schema extends AnySchema | undefined>(
  call: StepCall,
  options: WebhookOptions<Schema> | WebhookUrlOptions<Schema>,
): Promise<WebhookArrival<Schema> | WebhookUrl<Schema>> {
  useName(call, "webhook", options?.key);
  const ask = checkedAsk(call.name, options);
  if (!(ask.request as WebhookRequest).url) return arrivalFor(call, ask, options);
  const opened = await openRow<WaitReceipt & { readonly url: string }>(call, ask);
  let arrival: Promise<WebhookArrival<Schema>> | undefined;
  return {
    url: opened.url,
    wait() {
      arrival ??= arrivalFor(call, ask, options, opened);
      return arrival;
    },
  };
}

function arrivalFor<Schema extends AnySchema | undefined>(
  call: StepCall,
  ask: WaitAsk,
  { schema }: CommonOptions<Schema>,
  opened?: Timed<WaitReceipt>,
): Promise<WebhookArrival<Schema>> {
  const { name } = call;
  return takeWait(call, ask, {
    opened,
    async take(passed, refused) {
      const arrival = arrivalOf(passed, name, ask.timeoutMs, refused);
      const { id } = arrival;
      // The part that only the schema itself has, e.g. a refinement.
      const errorOf = (cause: SchemaMismatchError) => new WebhookBodyError(name, id, cause);
      const body = await takenBy(schema, arrival.body, errorOf);
      return { ...arrival, body } as WebhookArrival<Schema>;
    },
  });
}

/** @throws WebhookTimeoutError, WebhookCancelledError, WebhookError */
function arrivalOf(
  { status, result }: PassedWait,
  name: string,
  timeoutMs: number,
  refused: Refusal | undefined,
): WebhookResult {
  // A run that did not end well is in its row as `failed`, with the arrival that its step refused.
  if (status === "completed" || isArrival(result)) return result as WebhookResult;
  if (status === "expired") throw new WebhookTimeoutError(name, timeoutMs, refused);
  if (status === "cancelled") throw new WebhookCancelledError(name);
  throw new WebhookError((result as { error: string }).error, name);
}

function isArrival(result: Json): boolean {
  return typeof result === "object" && result !== null && "source" in result;
}

const FROM = text({ maxLength: 100 });
const TYPES = list(text({ maxLength: 200 }), { min: 1, max: MOST_TYPES });
const PATH = text({ maxLength: MOST_LENGTH }).refine(
  (path) => path.split(".").length <= MOST_NAMES,
  { error: `expected at most ${MOST_NAMES} names with dots between them` },
);
const VALUE = z.custom<WebhookValue>(
  (value) =>
    value === null ||
    typeof value === "boolean" ||
    (typeof value === "number" && Number.isFinite(value)) ||
    (typeof value === "string" && value.length <= MOST_LENGTH && value.isWellFormed()),
  {
    error: `expected a string of at most ${MOST_LENGTH} characters, a finite number, true, false or null`,
  },
);
const MATCH = z.custom<Readonly<Record<string, WebhookValue>>>(
  (match) =>
    isPlainObject(match) &&
    !Object.hasOwn(match, "__proto__") &&
    Object.keys(match).length >= 1 &&
    Object.keys(match).length <= MOST_PATHS,
  { error: `expected an object with 1 to ${MOST_PATHS} paths` },
);

const COMMON = { schema: z.unknown().optional(), timeout: TIMEOUT, key: KEY };
const WEBHOOK = optionsOf<WebhookOptions<AnySchema | undefined>>()({
  ...COMMON,
  from: FROM.optional(),
  // One or more: checked by TYPES.
  type: z.unknown().optional(),
  match: MATCH.optional(),
  lookback: duration({ max: "1 day" }).default(300_000),
  url: z.literal(false).optional(),
});
const WEBHOOK_URL = optionsOf<WebhookUrlOptions<AnySchema | undefined>>()({
  ...COMMON,
  url: z.literal(true),
});

/** @throws NonRetryableError for an invalid option; nothing is stored then */
function checkedAsk(
  name: string,
  options: WebhookOptions<AnySchema | undefined> | WebhookUrlOptions<AnySchema | undefined>,
): WaitAsk {
  const refuse = refusalOf("webhook", name);
  const closing = { status: "expired", result: null } as const;
  const kind = "webhook";
  if (options?.url === true) {
    const { schema, timeout: timeoutMs, key } = readStep(WEBHOOK_URL, options, refuse);
    const request: WebhookRequest = { url: true, ...formsFor(schema, refuse) };
    return { kind, key, request, timeoutMs, closing };
  }
  const read = readStep(WEBHOOK, options, refuse);
  const { from, type, match, lookback, schema, timeout: timeoutMs, key } = read;
  if (from === undefined && type === undefined && match === undefined) {
    throw refuse(
      "Missing option: expected at least one of from, type and match, or url: true. Any arrival would be taken.",
    );
  }
  const types = type === undefined ? [] : readStep(TYPES, [type].flat(), refuse, "type");
  for (const [path, value] of Object.entries(match ?? {})) {
    readStep(PATH, path, refuse, "path in match");
    readStep(VALUE, value, refuse, `match[${preview(path)}]`);
  }
  const request: WebhookRequest = {
    ...(from !== undefined && { from }),
    ...(types.length > 0 && { types: [...new Set(types)] }),
    ...(match !== undefined && { match }),
    lookbackMs: lookback,
    ...formsFor(schema, refuse),
  };
  return { kind, key, request, timeoutMs, closing };
}

function formsFor(
  schema: AnySchema | undefined,
  refuse: Refuse,
): Pick<WebhookRequest, "schema" | "check"> {
  return schema === undefined ? {} : sizedForms(schema, refuse);
}

/** The value of a field that an arrival must have. */
export type WebhookValue = string | number | boolean | null;

/** The request of a wait of kind `webhook`. */
export type WebhookRequest = {
  /** The name of the source. */
  readonly from?: string;
  readonly types?: readonly string[];
  /** By the path of each field, e.g. `data.object.id` or `items.0.sku`. */
  readonly match?: Readonly<Record<string, WebhookValue>>;
  /** How long before the wait an arrival may have come. */
  readonly lookbackMs?: number;
  /** The wait ends by a request to a URL of its own, and by no arrival. */
  readonly url?: true;
  /** JSON Schema of the body. */
  readonly schema?: Json;
  /** JSON Schema that the body is checked by, where `schema` refuses what its step takes. */
  readonly check?: Json;
};

/** The result of a completed wait: what the step returns, before its schema. */
export type WebhookResult = {
  /** The name of the source, e.g. `github`. */
  readonly source: string;
  /** The sender's id of the event. */
  readonly id: string;
  readonly type: string;
  readonly body: Json;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
};
