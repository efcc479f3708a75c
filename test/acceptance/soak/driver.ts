/** What the drivers of the soaks share: options, a machine that is removed in any case, waits with an end, and findings. */

import { randomInt } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";

/** Restarts with much pending work take less. */
const CALL_MS = 120_000;
const POLL_MS = 20;
/** A count that stays the same for so long is taken to be stuck. */
const STUCK_MS = 300_000;
/** The most findings of one kind to print. */
const MOST_SHOWN = 20;

/** The options of the command line, which are numbers. `seed` is random by default. */
export function numbersOf<Name extends string>(
  defaults: Readonly<Record<Name, number>>,
): Readonly<Record<Name | "seed", number>> {
  const known = Object.entries<number>({ seed: randomInt(2 ** 31), ...defaults });
  const options = known.map(
    ([name, value]) => [name, { type: "string", default: `${value}` }] as const,
  );
  const { values } = parseArgs({ options: Object.fromEntries(options) });
  const numbers = known.map(([name, value]) => [name, numberOf(name, values[name], value)]);
  return Object.fromEntries(numbers);
}

/** @param like a whole number for an option that takes no other ones */
function numberOf(name: string, text: unknown, like: number): number {
  const number = Number(text);
  const isValid = Number.isInteger(like) ? Number.isInteger(number) : Number.isFinite(number);
  if (isValid && number >= 0) return number;
  console.error(`--${name} is ${JSON.stringify(text)}; expected a number, e.g. ${like}.`);
  process.exit(2);
}

/** Runs a soak, prints its error with the end of the machine's log, removes the machine, and exits: 0 if all is fine. */
export async function drive(
  machine: { readonly destroy: () => void; readonly log: () => string },
  soak: () => Promise<boolean>,
): Promise<never> {
  process.on("exit", () => machine.destroy());
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
  let isFine = false;
  try {
    isFine = await soak();
  } catch (error) {
    console.error(error, `\nThe end of the runtime's log:\n${machine.log().slice(-4_000)}`);
  }
  process.exit(isFine ? 0 : 1);
}

/** Aborts after a time, with an error that says so. */
export function endsAfter(ms: number): AbortSignal {
  const over = new AbortController();
  const end = () =>
    over.abort(new Error(`The soak has not ended after ${Math.round(ms / 1_000)} s.`));
  setTimeout(end, ms).unref();
  return over.signal;
}

/** @throws Error without an answer in 2 minutes, or with the error of the answer */
export async function call<T>(
  { url }: { readonly url: string },
  name: string,
  args: unknown,
  signal: AbortSignal,
): Promise<T> {
  const patience = AbortSignal.timeout(CALL_MS);
  const init = { method: "POST", body: JSON.stringify(args) };
  try {
    const either = AbortSignal.any([signal, patience]);
    const response = await fetch(`${url}/${name}`, { ...init, signal: either });
    if (response.ok) return (await response.json()) as T;
    throw new Error(`${name}: ${response.status} ${await response.text()}`);
  } catch (cause) {
    if (!patience.aborted) throw cause;
    throw new Error(`${name}: no answer in ${CALL_MS / 1_000} s`, { cause });
  }
}

/**
 * Waits until there are so many.
 *
 * @throws Error if their number stays the same for 5 minutes
 */
export async function reached(
  least: number,
  what: string,
  count: () => number | Promise<number>,
  { pollMs = POLL_MS, signal }: { readonly pollMs?: number; readonly signal: AbortSignal },
): Promise<void> {
  let [last, since] = [await count(), Date.now()];
  while (last < least) {
    await delay(pollMs, undefined, { signal });
    const now = await count();
    if (now !== last) [last, since] = [now, Date.now()];
    else if (Date.now() - since > STUCK_MS)
      throw new Error(`There are ${last} ${what} for ${STUCK_MS / 1_000} s, of ${least}.`);
  }
}

/** Prints findings, and how many there are of each kind. */
export function tell<Kind extends string>(
  findings: readonly { readonly kind: Kind; readonly id: string; readonly what: string }[],
  kinds: readonly Kind[],
): string {
  const counts = kinds.map((kind) => {
    const own = findings.filter((finding) => finding.kind === kind);
    for (const { id, what } of own.slice(0, MOST_SHOWN)) console.error(`${kind} ${id}: ${what}`);
    if (own.length > MOST_SHOWN) console.error(`... and ${own.length - MOST_SHOWN} more ${kind}`);
    return `${kind} ${own.length}`;
  });
  return counts.join(", ");
}
