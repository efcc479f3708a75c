/** What a preset states about its sender, and the options of an endpoint. One preset is one file of `presets/`. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Clock } from "../core/clock.ts";
import type { Json } from "../core/json.ts";
import { InvalidOptionError } from "../core/options.ts";
import { thrownText } from "../inbound/offer.ts";
import type { Verdict } from "../inbound/protocol.ts";
import type { ApprovalClick, InboundDelivery } from "./delivery.ts";
import type { Verified } from "./verify.ts";

/** Milliseconds, or a whole number and a unit: `"30 seconds"`, `"5 minutes"`. A receiver has no room for all of `Duration`. */
export type ShortDuration = number | `${number} ${"second" | "minute" | "hour"}${"" | "s"}`;

/** The options of every endpoint. */
export type EndpointOptions<Body, Target> = {
  /** The name of the binding in env that has the sender's secret; several while you rotate it. */
  readonly secret: string | readonly string[];
  /**
   * The agent that gets the delivery: a stub, or `this` inside of an agent. Write it before `handle`, which infers the
   * agent's type from it. Null or undefined: nobody wants the delivery, which is answered with 200.
   */
  agent(delivery: InboundDelivery<Body>, env: Cloudflare.Env): Target;
  /**
   * Starts what the delivery is for, by calls of the agent's methods: each commits with the delivery. A Response that it
   * returns is the answer. Without it, the delivery is only for workflows that wait for it.
   */
  handle?(delivery: InboundDelivery<Body>, agent: NonNullable<Awaited<Target>>): unknown;
  /** Checks the body, and types it: any Standard Schema, e.g. of Zod. */
  readonly schema?: StandardSchemaV1<unknown, Body>;
  /** The types that are handled; other deliveries are answered with 200. All by default. */
  readonly events?: readonly string[];
  /** The path of its URL. @default "/hooks/<name>" */
  readonly path?: string;
  /** The name of the source, unique in a Worker. @default the preset's name, e.g. "github" */
  readonly name?: string;
  /** The largest body, up to 25 MiB. @default 1_048_576 */
  readonly maxBytes?: number;
  /** When the request is answered at the latest; the work continues. @default the preset's, below the sender's limit */
  readonly timeLimit?: ShortDuration;
  /** How far the sender's time may be from ours. Senders that sign no time have none. @default the preset's */
  readonly tolerance?: ShortDuration;
  readonly clock?: Pick<Clock, "now">;
};

/** A request whose body was read. */
export type Incoming = {
  readonly url: URL;
  readonly headers: Headers;
  /** The raw body; empty for GET. */
  readonly raw: Uint8Array<ArrayBuffer>;
  /** SHA-256 of the raw body, in hex. */
  readonly hash: string;
  /** The values of `secret`, without those that are missing in env: one or more. */
  readonly secrets: readonly string[];
  /** The value of another secret. Rejects where it is missing, which is answered with 503. */
  secretOf(binding: string): Promise<string>;
  /** Epoch milliseconds. */
  readonly now: number;
  /** In milliseconds. */
  readonly tolerance: number;
};

/** A destination of replies, as the outbox has it. Tokens are names of secrets in env. */
export type Reply =
  | {
      readonly kind: "slack";
      readonly token: string;
      readonly channel: string;
      readonly thread?: string;
    }
  | { readonly kind: "slack"; readonly responseUrl: string }
  | {
      readonly kind: "discord";
      readonly token: string;
      readonly channel: string;
      readonly replyTo?: string;
    }
  | { readonly kind: "discord"; readonly application: string; readonly interaction: string }
  | {
      readonly kind: "telegram";
      readonly token: string;
      readonly chat: string | number;
      readonly thread?: number;
      readonly replyTo?: number;
    }
  | {
      readonly kind: "github-comment";
      readonly token: string;
      readonly repository: string;
      readonly issue: number;
    };

/** What the request is answered with, where the preset has no answer of its own. */
export type Outcome = {
  readonly status: number;
  /** Left out where the time limit has passed, or the delivery was refused before the agent. */
  readonly verdict?: Verdict;
  /** The delivery's id. */
  readonly id?: string;
  readonly error?: string;
};

/** What a preset finds in a request. */
export type Identity = {
  readonly id: string | undefined;
  readonly type: string;
  /** In place of the parsed body: with what the sender has only in a header. */
  readonly body?: Json;
};

/** The check of an option. @throws InvalidOptionError */
export type Check = (option: string, value: unknown) => void;

/**
 * A sender. A preset reads its own options in its functions, which run after `endpoint()` has checked them. What
 * `identify()`, `reply()` and `click()` throw is answered with 400; the body is an object or a list.
 */
export type Preset = {
  /** The default name of the source; the default path is `/hooks/<name>`. */
  readonly name: string;
  /** When the request is answered at the latest, in milliseconds: a little less than the sender waits. */
  readonly timeLimit: number;
  /** The default tolerance in milliseconds; left out where the sender signs no time. */
  readonly tolerance?: number;
  /** What the option `secret` is called where it names something else. */
  readonly secretOption?: "publicKey";
  /** Options that only this preset has. Undefined values are not checked. */
  readonly options?: Readonly<Record<string, Check>>;
  /** Answers a GET, e.g. Meta's `hub.challenge`. Left out: GET is answered with 405. */
  onGet?(incoming: Incoming): Response | Promise<Response>;
  /** Whether the sender has signed this request. Runs before anything is parsed. */
  verify(incoming: Incoming): Verified | Promise<Verified>;
  /** Parses a form into the body. Left out: a form is answered with 415. */
  form?(text: string): Json;
  /** Whether only forms are accepted, and no JSON. */
  readonly isFormOnly?: boolean;
  /** Answers a verified handshake, e.g. GitHub's ping. No agent is called. */
  handshake?(body: Json, incoming: Incoming): Response | undefined;
  /** The delivery's id and type. An id that is undefined or "" is answered with 400; take `incoming.hash` where there is none. */
  identify(body: Json, incoming: Incoming): Identity;
  /** Where answers go. Of the body alone, because a replay has no headers. */
  reply?(body: Json, type: string): Reply | undefined;
  /** The click on an approval's button. Of the body alone. */
  click?(body: Json, type: string): ApprovalClick | undefined;
  /** Handles the delivery in place of the app's `handle`, e.g. a click. A Response that it resolves with is the answer. */
  handle?(delivery: InboundDelivery, agent: AgentCalls): Promise<unknown> | undefined;
  /** The answer in the sender's form, e.g. TwiML. Undefined: JSON with the verdict. Called once the body is parsed. */
  answer?(outcome: Outcome, body: Json, delivery?: InboundDelivery): Response | undefined;
};

/** An agent of which any method can be called. */
export type AgentCalls = Readonly<Record<string, (...args: unknown[]) => Promise<unknown>>>;

/** A source of deliveries, as a preset makes it for `webhooks()`. */
export type Endpoint = {
  readonly preset: Preset;
  readonly name: string;
  readonly path: string;
  /** Names of bindings. */
  readonly secrets: readonly string[];
  readonly maxBytes: number;
  readonly timeLimit: number;
  readonly tolerance: number;
  readonly options: EndpointOptions<Json, object | null | undefined>;
};

/** An endpoint that answers the requests of its path itself: `links()`. */
export type SelfAnswering = {
  readonly name: string;
  readonly path: string;
  /** Never rejects. */
  respond(request: Request, env: object): Promise<Response>;
};

const MIB = 1_048_576;
const MAX_BYTES = 25 * MIB;
const MAX_SECRETS = 10;
/** A Worker runs for 30 seconds after its response. */
const MAX_TIME_LIMIT = 30_000;

/** A check that calls `isValid`. @param expected what the message says, e.g. `a function` */
export const checkThat =
  (isValid: (value: unknown) => boolean | undefined, expected: string): Check =>
  (option, value) => {
    if (!isValid(value)) throw invalid(option, value, expected);
  };

/** As `invalidOption()` of core, and smaller. */
export function invalid(option: string, value: unknown, expected: string): InvalidOptionError {
  const given = typeof value === "string" ? `"${value}"` : thrownText(value);
  return new InvalidOptionError(
    option,
    `Invalid ${option} ${given.slice(0, 100)}: expected ${expected}.`,
  );
}

export const aFunction = checkThat((value) => typeof value === "function", "a function");

/**
 * One name of a binding in env. The value is not shown, because it may be a secret: texts
 * that begin like a known secret, or have 32 characters of hex, are refused.
 */
export const secretName: Check = (option, value) => {
  if (typeof value === "string" && /^[a-z_$][\w$]{0,99}$/i.test(value) && !SECRET.test(value))
    return;
  const message = `Invalid ${option}: expected the name of a binding in env, and not a secret itself.`;
  throw new InvalidOptionError(option, message);
};

const anObjectWith = (field: string, expected: string): Check =>
  checkThat((value) => !!(value as Record<string, unknown> | null)?.[field], expected);

const SECRET = /^(whsec|sk|gh.|xox.)_|[\da-f]{32}/;

/** The check of `secret`. */
export const secretNames: Check = (option, value) => {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  if (names.length === 0 || names.length > MAX_SECRETS)
    throw invalid(option, names.length, `1 to ${MAX_SECRETS} names`);
  for (const name of names) secretName(option, name);
};

/** The checks of the options of every endpoint. */
export const OPTIONS: Readonly<Record<string, Check>> = {
  agent: aFunction,
  handle: aFunction,
  schema: anObjectWith("~standard", "a Standard Schema"),
  events: checkThat(
    (value) => Array.isArray(value) && value.every((type) => typeof type === "string"),
    "a list of types",
  ),
  path: checkThat(
    (value) => URL.parse(String(value), "http://x")?.pathname === value,
    'a path, e.g. "/hooks/acme"',
  ),
  name: checkThat(
    (value) => /^[\w-]{1,64}$/.test(String(value)),
    "1 to 64 letters, digits, _ and -",
  ),
  maxBytes: checkThat(
    (value) => Number.isInteger(value) && 0 < Number(value) && Number(value) <= MAX_BYTES,
    `a whole number from 1 to ${MAX_BYTES}`,
  ),
  timeLimit: checkThat((value) => msOf(value) <= MAX_TIME_LIMIT, "at most 30 seconds"),
  tolerance: checkThat((value) => msOf(value) < Infinity, 'a duration, e.g. "5 minutes"'),
  clock: anObjectWith("now", "a clock"),
};

/** NaN for anything else. */
function msOf(duration: unknown): number {
  if (typeof duration === "number") return duration >= 1 ? duration : Number.NaN;
  const [, count, unit] = /^(\d+) (second|minute|hour)s?$/.exec(String(duration)) ?? [];
  return Number(count) * { second: 1_000, minute: 60_000, hour: 3_600_000 }[unit as "hour"];
}

/**
 * An endpoint of the preset. Every preset calls it with the app's options.
 *
 * @param required options that this preset needs
 * @throws InvalidOptionError
 */
export function endpoint<Body, Target>(
  preset: Preset,
  options: Omit<EndpointOptions<Body, Target>, "secret">,
  required: readonly string[] = [],
): Endpoint {
  const { secretOption = "secret" } = preset;
  const checks = { [secretOption]: secretNames, ...OPTIONS, ...preset.options };
  const names = Object.keys(checks);
  const unknown = Object.keys(options).find((option) => !names.includes(option));
  if (unknown !== undefined) {
    const message = `Unknown option "${unknown}" in options of ${preset.name}(). Valid options: ${names.join(", ")}.`;
    throw new InvalidOptionError(unknown, message);
  }
  for (const [option, check] of Object.entries(checks)) {
    const value = options[option as keyof typeof options] as unknown;
    if (value !== undefined || [secretOption, "agent", ...required].includes(option))
      check(option, value);
  }
  const { name = preset.name, path = `/hooks/${name}`, maxBytes = MIB } = options;
  const { timeLimit = preset.timeLimit, tolerance = preset.tolerance ?? 0 } = options;
  return {
    preset,
    name,
    path,
    secrets: [options[secretOption as keyof typeof options] as unknown].flat() as string[],
    maxBytes,
    timeLimit: msOf(timeLimit),
    // 0 where the sender signs no time.
    tolerance: tolerance && msOf(tolerance),
    // What `agent` and `handle` receive is what the schema has made.
    options: options as unknown as Endpoint["options"],
  };
}
