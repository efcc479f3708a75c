/**
 * What a provider says of its own limits: by headers of its answers, and by refusing a request. Pure.
 *
 * - `retry-after`: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after; `retry-after-ms` of OpenAI and Azure
 * - `x-ratelimit-*` of OpenAI and compatible ones, with times such as `6m0s`: https://platform.openai.com/docs/guides/rate-limits
 * - `anthropic-ratelimit-*`, with times of RFC 3339: https://platform.claude.com/docs/en/api/rate-limits
 */

import { retryAfterOf } from "../../../core/failures.ts";
import type { Observation, Rules } from "../keeper/protocol.ts";

export type Headers = Readonly<Record<string, string | undefined>>;

/** What the headers say, as far as they do. */
export type ProviderLimits = {
  /** What it allows in a minute. */
  readonly allowed: { readonly requests?: number; readonly tokens?: number };
  /** When what is used up comes back: the longest of the times. */
  readonly resetMs?: number;
};

const DIMENSIONS = ["requests", "tokens"] as const;
/** Anthropic has limits of input and of output besides. */
const NAMED = [...DIMENSIONS, "input-tokens", "output-tokens"] as const;
/** Too many requests; overloaded, as Anthropic and service providers in general say it. */
const REFUSED = 429;
const OVERLOADED: readonly number[] = [503, 529];
/** The headers are of the account's limits in a minute. Other windows cannot be compared with them. */
const MINUTE_MS = 60_000;
/** A provider that names a longer time is asked again then. */
const LONGEST_MS = 86_400_000;

/** @param now epoch milliseconds */
export function readLimitHeaders(headers: Headers | undefined, now: number): ProviderLimits {
  const limits: { [Name in (typeof NAMED)[number]]?: number } = {};
  const resets: number[] = [];
  const lower = loweredOf(headers);
  for (const name of NAMED) {
    const read = (what: "limit" | "remaining" | "reset") =>
      lower[`anthropic-ratelimit-${name}-${what}`] ?? lower[`x-ratelimit-${what}-${name}`];
    const limit = countOf(read("limit"));
    if (limit) limits[name] = limit;
    const resetMs = resetMsOf(read("reset"), now);
    if (countOf(read("remaining")) === 0 && resetMs !== undefined) resets.push(resetMs);
  }
  const { requests, "input-tokens": input, "output-tokens": output } = limits;
  // A limit of tokens counts input and output together.
  const { tokens = input && output && input + output } = limits;
  const allowed = { ...(requests && { requests }), ...(tokens && { tokens }) };
  return { allowed, ...(resets.length > 0 && { resetMs: Math.max(...resets) }) };
}

/** The status and the headers of an answer, or of an error that {@link responseOf} of the core reads. */
export type ProviderResponse = {
  readonly status?: number | undefined;
  readonly headers?: Headers | undefined;
  /** Whether the account has no credit left: that is no limit of a rate. */
  readonly isQuotaUsedUp?: boolean;
};

/** How long a provider takes no requests, where it has refused one. */
export function refusalOf(
  { status = 0, headers, isQuotaUsedUp }: ProviderResponse,
  now: number,
): Observation["refused"] {
  if (isQuotaUsedUp) return undefined;
  const after = retryAfterOf(loweredOf(headers), now) ?? readLimitHeaders(headers, now).resetMs;
  const isRefused = status === REFUSED || (OVERLOADED.includes(status) && after !== undefined);
  if (!isRefused) return undefined;
  return after === undefined ? {} : { retryAfterMs: Math.min(after, LONGEST_MS) };
}

/** Of what the provider allows, what can be compared with the rules: limits in a minute. */
export function comparable(
  allowed: ProviderLimits["allowed"],
  rules: Rules,
): ProviderLimits["allowed"] {
  const some = DIMENSIONS.filter((name) => {
    const { window } = rules[name] ?? {};
    return allowed[name] !== undefined && window && "ms" in window && window.ms === MINUTE_MS;
  });
  return Object.fromEntries(some.map((name) => [name, allowed[name]]));
}

function loweredOf(headers: Headers | undefined): Record<string, string> {
  const entries = Object.entries(headers ?? {});
  const texts = entries.flatMap(([name, value]) =>
    typeof value === "string" ? [[name.toLowerCase(), value.trim()] as const] : [],
  );
  return Object.fromEntries(texts);
}

function countOf(text: string | undefined): number | undefined {
  const count = text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) ? count : undefined;
}

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const SPAN = /^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|[smhd])/g;
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
/** Of a header that is read. */
const MAX_LENGTH = 64;

/** `6m0s`, `12ms`, seconds without a unit, or a time. */
function resetMsOf(text: string | undefined, now: number): number | undefined {
  if (text === undefined || text.length > MAX_LENGTH) return undefined;
  if (/^\d{1,9}(?:\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1_000);
  if (SPAN.test(text)) {
    const parts = [...text.matchAll(PART)];
    const ms = parts.reduce(
      (sum, [, count, unit]) => sum + Number(count) * UNITS[unit as keyof typeof UNITS],
      0,
    );
    return Number.isFinite(ms) ? Math.ceil(ms) : undefined;
  }
  if (!RFC_3339.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
