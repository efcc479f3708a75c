/** What a preset states about its sender, and the options of an endpoint. One preset is one file of `presets/`. */

import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Clock } from "../../../core/clock.ts";
import type { Json } from "../../../core/json.ts";
import { InvalidOptionError } from "../../../core/options/options.ts";
import { SECRET_NAME } from "../../../core/secrets.ts";
import type { ReplyDestination } from "../../replies/replies.ts";
import { thrownText } from "../offer.ts";
import type { RefusalReason, Verdict } from "../protocol.ts";
import type { Arrival } from "./arrival.ts";
import type { ApprovalClicks } from "./click.ts";
import { invalid } from "./invalid-option.ts";
import { DEFAULT_BYTES, MAX_BYTES, MAX_SECRETS, MAX_TIME_LIMIT } from "./limits.ts";
import type { Verified } from "./verify.ts";

/** Milliseconds, or a whole number and a unit: `"30 seconds"`, `"5 minutes"`. A receiver has no room for all of `Duration`. */
export type ShortDuration = number | `${number} ${"second" | "minute" | "hour"}${"" | "s"}`;

/** What `agent` may return: an agent that accepts arrivals, a stub of one, or nothing; also as a promise. */
export type MaybeAgent = AgentLike | PromiseLike<AgentLike>;
/** By a method that all agents of Perdure publish, and no others. */
type AgentLike = { waitForSubmission(...args: never): unknown } | null | undefined;

/** The options of every endpoint. */
export type EndpointOptions<Body, Target> = {
  /** The name of the binding in env that has the sender's secret; several while you rotate it. */
  readonly secret: string | readonly string[];
  /**
   * The agent that gets the arrival: a stub, or `this` inside of an agent. Write it before `handle`, which infers the
   * agent's type from it. Null or undefined: no agent gets the arrival, and the answer is 200.
   */
  agent(arrival: Arrival<Body>, env: Cloudflare.Env): Target;
  /**
   * Starts what the arrival is for, by calls of the agent's methods: each commits with the arrival. A Response that it
   * returns is the answer. Without it, the arrival is only for workflows that wait for it.
   */
  handle?(arrival: Arrival<Body>, agent: NonNullable<Awaited<Target>>): unknown;
  /** Checks the body, and types it: any Standard Schema, e.g. of Zod. */
  readonly schema?: StandardSchemaV1<unknown, Body>;
  /**
   * The types that are handled; other arrivals are answered with 200. All by default. Where `approvals` is set, a click on
   * an approval's button is handled whatever its type.
   */
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
  readonly env: object;
  readonly ctx: { waitUntil(work: Promise<unknown>): void };
  /** Epoch milliseconds. */
  readonly now: number;
  /** In milliseconds. */
  readonly tolerance: number;
};

/** The answer to a request, if the preset has none of its own. */
export type Outcome = {
  readonly status: number;
  /** Left out where the time limit has passed, or the arrival was refused before the agent. */
  readonly verdict?: Verdict;
  /** The arrival's id. */
  readonly id?: string | undefined;
  readonly error?: string;
};

/** What a preset finds in a request. */
export type Identity = {
  readonly id: string | undefined;
  readonly type: string;
  /** In place of the parsed body: with what the sender has only in a header. */
  readonly body?: Json;
  /** The part that all repetitions have in common. @default the body as it was sent */
  readonly content?: Json;
};

/** The check of an option, and what its error says: `expected a function`. The error does not show a secret. */
export type Check = readonly [
  isValid: (value: never) => unknown,
  expected: string,
  isSecret?: boolean,
];

/**
 * A sender. A preset reads its own options in its functions, which run after `endpoint()` has checked them. What
 * `identify()` and `reply()` throw is answered with 400; the body is an object or a list.
 */
export type Preset = {
  /** The default name of the source; the default path is `/hooks/<name>`. */
  readonly name: string;
  /** When the request is answered at the latest, in milliseconds: a little less than the sender waits. */
  readonly timeLimit: number;
  /** The default tolerance in milliseconds; left out where the sender signs no time. */
  readonly tolerance?: number;
  /** Options that only this preset has. Undefined values are not checked. */
  readonly options?: Readonly<Record<string, Check>>;
  /** Answers a GET, e.g. Meta's `hub.challenge`, without reading `secret`. Left out: GET is answered with 405. */
  onGet?(incoming: Pick<Incoming, "url" | "headers" | "env">): Response | Promise<Response>;
  /** Whether the sender has signed this request. Runs before anything is parsed. */
  verify(incoming: Incoming): Verified | Promise<Verified>;
  /** Parses a form into the body. Left out: a form is answered with 415. */
  form?(text: string): Json;
  /** Whether only forms are accepted, and no JSON. */
  readonly isFormOnly?: boolean;
  /** Answers a verified handshake, e.g. GitHub's ping. No agent is called. */
  handshake?(body: Json, incoming: Incoming): Response | undefined;
  /** Offers the arrivals of a batch, one after the other. Left out, or undefined: the body is the arrival. */
  offerAll?(
    body: Json,
    offer: (arrival: Pick<Incoming, "raw" | "hash"> & { readonly body: Json }) => Promise<Response>,
  ): Promise<Response> | undefined;
  /** The arrival's id and type. An id that is undefined or "" is answered with 400; take `incoming.hash` where there is none. */
  identify(body: Json, incoming: Incoming): Identity;
  /** Where answers go. Of the body alone, because a replay has no headers. */
  reply?(body: Json, type: string): ReplyDestination | undefined;
  /** The answer in the sender's form, e.g. TwiML. Undefined: JSON with the verdict. Called once the body is parsed. */
  answer?(outcome: Outcome, body: Json, arrival?: Arrival): Response | undefined;
};

/** A source of arrivals, as a preset makes it for `webhooks()`. */
export type Endpoint = {
  readonly preset: Preset;
  readonly name: string;
  readonly path: string;
  /** The names of the secrets in env. */
  readonly bindings: readonly string[];
  readonly maxBytes: number;
  readonly timeLimit: number;
  readonly tolerance: number;
  /** Refused requests that no agent was told of, and when one is or was called. */
  readonly untold: Record<RefusalReason | "calledAt", number>;
  /** Finds the agent that is told of them: set by `countRefusals()`. */
  readonly countedBy?: (env: Cloudflare.Env) => MaybeAgent;
  readonly options: EndpointOptions<Json, object | null | undefined> & {
    /** Of senders with buttons. */
    readonly approvals?: ApprovalClicks;
  };
};

/** An endpoint that answers the requests of its path itself: `links()`. */
export type SelfAnswering = {
  readonly name: string;
  readonly path: string;
  readonly bindings: readonly string[];
  /** Never rejects. */
  respond(request: Request, env: object): Promise<Response>;
};

/** @throws InvalidOptionError */
export function checkOption(
  option: string,
  value: unknown,
  [isValid, expected, isSecret]: Check,
): void {
  if (!isValid(value as never)) throw invalid(option, isSecret ? "(not shown)" : value, expected);
}

export const matches = (pattern: RegExp) => (value: unknown) =>
  typeof value === "string" && pattern.test(value);

export const aFunction: Check = [(value) => typeof value === "function", "a function"];

const isName = matches(SECRET_NAME);
const A_NAME = "the name of a secret in env, and not a secret itself";

/** One name of a binding in env. */
export const secretName: Check = [isName, A_NAME, true];

/** The check of `secret`. */
export const secretNames: Check = [
  (value) => {
    const names: unknown[] = [value].flat();
    return names.length > 0 && names.length <= MAX_SECRETS && names.every(isName);
  },
  `1 to ${MAX_SECRETS} names, each ${A_NAME}`,
  true,
];

/** The checks of the options of every endpoint. */
export const OPTIONS = {
  agent: aFunction,
  handle: aFunction,
  schema: [
    (value: EndpointOptions<Json, object>["schema"]) => value?.["~standard"],
    "a Standard Schema",
  ],
  events: [
    (value: unknown) => Array.isArray(value) && value.every((type) => typeof type === "string"),
    "a list of types",
  ],
  path: [
    (value) => URL.parse(thrownText(value), "http://x")?.pathname === value,
    'a path, e.g. "/hooks/acme"',
  ],
  name: [matches(/^[\w-]{1,64}$/), "1 to 64 letters, digits, _ and -"],
  maxBytes: [
    (value: number) => Number.isInteger(value) && value > 0 && value <= MAX_BYTES,
    `a whole number from 1 to ${MAX_BYTES}`,
  ],
  timeLimit: [(value) => msOf(value) <= MAX_TIME_LIMIT, "at most 30 seconds"],
  tolerance: [(value) => msOf(value) < Infinity, 'a duration, e.g. "5 minutes"'],
  clock: [(value: { now?: unknown } | null) => value?.now, "a clock"],
} as const satisfies Readonly<Record<string, Check>>;

/** NaN for anything else. */
function msOf(duration: unknown): number {
  if (typeof duration === "number") return duration >= 1 ? duration : Number.NaN;
  const [, count, isSeconds, isMinutes] =
    /^(\d+) (?:(second)|(minute)|hour)s?$/.exec(thrownText(duration)) ?? [];
  return Number(count) * (isSeconds ? 1_000 : isMinutes ? 60_000 : 3_600_000);
}

/** A preset's function. `Own` are the options that only this preset has. */
export type PresetOf<OwnBody, Own = unknown> = <Target extends MaybeAgent, Body = OwnBody>(
  options: EndpointOptions<Body, Target> & Own,
) => Endpoint;

/**
 * An endpoint of the preset. Every preset calls it with the app's options.
 *
 * @param required options that this preset needs. The first one has the names of the secrets
 * @throws InvalidOptionError
 */
export function endpoint<Body, Target>(
  preset: Preset,
  options: Omit<EndpointOptions<Body, Target>, "secret">,
  required: readonly [secret: string, ...others: string[]] = ["secret"],
): Endpoint {
  const [secret] = required;
  const checks: Readonly<Record<string, Check | undefined>> = {
    // Options are looked up in it by their names.
    __proto__: null as never,
    [secret]: secretNames,
    ...OPTIONS,
    ...preset.options,
  };
  const values = (options ?? {}) as Readonly<Record<string, unknown>>;
  const needed = [...required, "agent"];
  for (const option of [...needed, ...Object.keys(values)]) {
    const value = values[option];
    const check = checks[option];
    if (!check) {
      const valid = Object.keys(checks);
      const message = `Unknown option "${option}" in options of ${preset.name}(). Valid options: ${valid.join(", ")}.`;
      throw new InvalidOptionError(option, message);
    }
    if (value !== undefined || needed.includes(option)) checkOption(option, value, check);
  }
  const { name = preset.name, path = `/hooks/${name}`, maxBytes = DEFAULT_BYTES } = options;
  const { timeLimit = preset.timeLimit, tolerance = preset.tolerance } = options;
  return {
    preset,
    name,
    path,
    bindings: [values[secret]].flat() as string[],
    untold: { signature: 0, clock: 0, calledAt: 0 },
    maxBytes,
    timeLimit: msOf(timeLimit),
    // NaN where the sender signs no time.
    tolerance: msOf(tolerance),
    // `agent` and `handle` receive the value that the schema has made.
    options: options as unknown as Endpoint["options"],
  };
}
