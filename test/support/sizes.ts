/**
 * The sizes of tests, set by environment variables, e.g.
 * `VITE_PERDURE_MODEL_RUNS=5000 npx vitest run test/submissions/model.test.ts`.
 * Vite passes variables that begin with VITE_ to workerd, and no others.
 *
 * Each name begins with `VITE_PERDURE_`. `npm test` and `npm run test:long` use the first number, `npm run prove` the second (scripts/prove.ts):
 *
 *   CRASH_STRIDE           varies, 1       one of so many points of the crash matrix is tried
 *   MODEL_RUNS             40, 1000        sequences for the ledger; also MODEL_SEED, MODEL_PATH
 *   OUTBOX_MODEL_RUNS      24, 500         for the outbox; also OUTBOX_MODEL_SEED, OUTBOX_MODEL_PATH
 *   SCHEDULER_MODEL_RUNS   14, 200         for the scheduler; also SCHEDULER_MODEL_SEED, SCHEDULER_MODEL_PATH
 *   WAITS_RUNS             40, 1000        for the waits; also WAITS_SEED, WAITS_PATH
 *   INBOUND_RUNS           40, 1000        for the delivery log; also INBOUND_SEED, INBOUND_PATH
 *   FOLLOWERS_RUNS         8, 200          for followers of threads; also FOLLOWERS_SEED
 *   BATCH_RUNS             15, 200         batches of any size with a crash at any time
 *   BATCH_ITEMS            250, 1000       items of the largest batch
 *   BULK_ITEMS             2000, 10000     submissions that one action cancels
 *   NAMES_RUNS             40, 400         pairs of names for each of their rules
 *   SCALE_ROWS             100000, 1000000 submissions stored
 *   SCALE_LOAD             2000, 10000     submissions at once
 *   OUTBOX_LOAD            2000, 10000     entries at once
 *   LIMITS_AGENTS          400, 10000      agents that share one account; also LIMITS_SEED
 *   LIMITS_KEYS            10000, 1000000  keys of one keeper
 *   LIMITS_RUNS            300, 20000      sequences for a keeper's book
 *   SCHEDULE_RUNS          500, 10000      schedules; also SCHEDULE_SEED
 *   SCHEDULE_FULL          0, 1            1: every zone and every change from 1990 to 2060
 *   REPLAY_STRIDE          3, 1            one of so many runs of workflows is replayed
 *   ALL_DEPLOYS            0, 1            1: `perdure check` tries every deploy in a real runtime
 *   LIMIT_MS               varies          the time limit of these tests
 */

type Env = Readonly<Record<string, string | undefined>>;

/** The text of `VITE_PERDURE_<name>`, if there is one. */
export function envText(name: string): string | undefined {
  const { env } = import.meta as ImportMeta & { readonly env: Env };
  return env[`VITE_PERDURE_${name}`] || undefined;
}

/** The number in `VITE_PERDURE_<name>`, or `otherwise`. */
export function sizeOf(name: string, otherwise: number): number {
  const text = envText(name);
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (Number.isFinite(value)) return value;
  throw new Error(`VITE_PERDURE_${name} is ${JSON.stringify(text)}; expected a number`);
}

/**
 * Bound of every wait for a state: it catches a hang, and is no measure of speed. Tests run beside other processes, which
 * make them several times slower.
 */
export const HANG_MS = 60_000;

/** The time limit of a test whose size can be set: `shortMs`, unless LIMIT_MS is set. */
export function limitMs(shortMs: number): number {
  return sizeOf("LIMIT_MS", shortMs);
}

/** The first of each `VITE_PERDURE_<name>` cases, which is `otherwise` by default. */
export function sample<T>(name: string, otherwise: number, cases: readonly T[]): T[] {
  const stride = sizeOf(name, otherwise);
  return cases.filter((_, index) => index % stride === 0);
}
