/** Checks the options of the arrival log, its filters, and what receivers send. */

import * as z from "zod";
import { byteLength, type Json, jsonTextOf } from "../../core/json.ts";
import {
  count,
  duration,
  instant,
  list,
  oneOf,
  optionsOf,
  readOptions,
  someOf,
  text,
} from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { byRange, bySeq, cursorsOf, invalidFilter, readFilter } from "../../engine/page.ts";
import { InvalidArrivalError } from "./errors.ts";
import type { AcceptRequest, RawArrival, RefusedRequests } from "./protocol.ts";
import { type StoredVerdict, VERDICTS } from "./states.ts";
import type { InboundFilter, InboundSettings, ListInboundOptions, ReplayFilter } from "./types.ts";

/** Calls of an arrival that are recorded, and so the most that it may make. */
export const MAX_CALLS = 100;
/** Bytes of a body as JSON that is kept. It shares a row of at most 2 MB with what its calls have returned. */
const MAX_BODY_BYTES = 1_500_000;
const MIB = 1_048_576;

const SETTINGS = optionsOf<InboundSettings>()({
  retention: optionsOf<NonNullable<InboundSettings["retention"]>>()({
    maxAge: duration({ infinity: true }).prefault("30 days"),
    maxCount: count({ infinity: true }).default(10_000),
    maxBytes: count({ infinity: true }).default(256 * MIB),
  }).prefault({}),
  maxInFlight: count({ max: 100_000 }).default(1_000),
});

export type Limits = ReturnType<typeof readSettings>;

/** @throws InvalidOptionError naming the option */
export function readSettings(settings: InboundSettings = {}) {
  const { retention, maxInFlight } = readOptions(SETTINGS, settings, "inbound");
  const { maxAge: maxAgeMs, maxCount, maxBytes } = retention;
  return { maxAgeMs, maxCount, maxBytes, maxInFlight };
}

const SOURCE = text({ maxLength: 100 });
const ID = z.string().regex(/^[A-Za-z0-9_-]{1,100}$/, {
  error: "expected 1 to 100 characters of A-Z, a-z, 0-9, _ and -. Use a SHA-256 of another id",
});
const HASH = z
  .string()
  .regex(/^[0-9a-f]{64}$/, { error: "expected a SHA-256 in hex, which has 64 digits" });
const TYPE = text({ maxLength: 200, empty: true });

const ARRIVAL = optionsOf<RawArrival>()({
  source: SOURCE,
  id: ID,
  type: TYPE,
  body: z.custom<Json>().optional(),
  bytes: count({ min: 0 }),
  hash: HASH,
  receivedAt: count({ min: 0 }),
});
const REQUEST = optionsOf<AcceptRequest>()({
  arrival: ARRIVAL,
  call: optionsOf<NonNullable<AcceptRequest["call"]>>()({
    ordinal: count({ min: 0 }),
    // An invalid name of a method is refused as a call, so that the log has it.
    verb: z.custom<string>(),
    args: list(z.unknown(), { max: 100 }),
  }).optional(),
  refusal: text({ empty: true }).optional(),
  held: text({ empty: true }).optional(),
  ended: z.literal(true).optional(),
});

const REFUSED = optionsOf<RefusedRequests>()({
  source: SOURCE,
  reason: oneOf(["signature", "clock"]),
  count: count(),
});

/** A checked request. */
export type Request = {
  readonly arrival: RawArrival;
  /** The body as JSON, where it was sent and is small enough to be kept. */
  readonly text: string | undefined;
  readonly call: AcceptRequest["call"];
  readonly refusal: string | undefined;
  readonly held: string | undefined;
  readonly ended: true | undefined;
};

const make = (field: string, message: string) => new InvalidArrivalError(field, message);

/** @throws InvalidArrivalError */
export function readRefused(request: RefusedRequests): RefusedRequests {
  return readOptions(REFUSED, request, "request", make);
}

/** @throws InvalidArrivalError */
export function readRequest(request: unknown): Request {
  const { arrival, call, refusal, held, ended } = readOptions(REQUEST, request, "request", make);
  if ([call, refusal, held, ended].filter((one) => one !== undefined).length > 1) {
    const problem = "expected one of call, refusal, held and ended, or none";
    throw make("request", invalidMessage("request", "with more than one of them", problem));
  }
  return { arrival: arrival as RawArrival, text: textOf(arrival.body), call, refusal, held, ended };
}

function textOf(body: Json | undefined): string | undefined {
  if (body === undefined) return undefined;
  const refuse = (message: string) => new InvalidArrivalError("arrival.body", message);
  const text = jsonTextOf("arrival.body", body, { maxBytes: Number.POSITIVE_INFINITY, refuse });
  return byteLength(text) <= MAX_BODY_BYTES ? text : undefined;
}

const FILTER = {
  source: SOURCE.optional(),
  verdict: someOf<StoredVerdict>(VERDICTS).optional(),
  type: TYPE.optional(),
  since: instant().optional(),
  until: instant().optional(),
};
/** Which arrivals, without a page. */
export const INBOUND_FILTER = optionsOf<InboundFilter>()(FILTER);
export const ARRIVALS = cursorsOf("arrivals", bySeq);
export const REPLAYS = cursorsOf("replays", byRange);
const PAGE = {
  limit: count({ max: 1_000 }).default(100),
  cursor: ARRIVALS.option,
};
const PAGED = optionsOf<ListInboundOptions>()({ ...FILTER, ...PAGE });
const REPLAY = optionsOf<ReplayFilter>()({
  ...FILTER,
  limit: PAGE.limit,
  cursor: REPLAYS.option,
});
const ARRIVAL_REF = optionsOf<{ source: string; id: string }>()({
  source: text({ empty: true }),
  id: text({ empty: true }),
});

/** Which of the latest arrivals a wait asks for. */
export type RecentOptions = {
  /** Epoch milliseconds. */
  readonly since: number;
  readonly source?: string | undefined;
  readonly limit: number;
};

/** A filter as the store takes it. */
export type Selection = {
  readonly source: string | undefined;
  readonly verdicts: readonly StoredVerdict[] | undefined;
  readonly type: string | undefined;
  readonly since: number | undefined;
  readonly until: number | undefined;
  /** Only those whose handler has not ended. */
  readonly isUnfinished: boolean;
  /** Only failures whose name and text it returns true for. */
  readonly matches?: Matches | undefined;
};

export type Matches = (failure: string) => boolean;

/** @throws InvalidFilterError for an unknown option or an invalid value */
export function readPage(options: ListInboundOptions) {
  const { limit, cursor, ...filter } = readFilter(PAGED, "inbound.list()", options);
  return { selection: { ...selectionOf(filter), isUnfinished: false }, limit, cursor };
}

/** @throws InvalidFilterError for an unknown option or an invalid value */
export function readReplay(options: ReplayFilter, matches?: Matches) {
  const { limit, cursor, ...filter } = readFilter(REPLAY, "inbound.replayMany()", options);
  const selection = selectionOf(filter);
  return { selection: { ...selection, isUnfinished: !selection.verdicts, matches }, limit, cursor };
}

type Read = {
  readonly source?: string;
  readonly verdict?: readonly StoredVerdict[];
  readonly type?: string;
  readonly since?: number;
  readonly until?: number;
};

function selectionOf({ source, verdict: verdicts, type, since, until }: Read) {
  return { source, verdicts, type, since, until };
}

/** @throws InvalidFilterError for values that cannot name an arrival */
export function checkRef(verb: string, source: unknown, id: unknown): void {
  readOptions(ARRIVAL_REF, { source, id } as never, `arguments of ${verb}`, invalidFilter);
}
