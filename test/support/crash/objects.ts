/** Helpers of crash scenarios for objects of any module. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { until } from "../given.ts";
import { sleep } from "../ledger.ts";
import { HANG_MS } from "../sizes.ts";

type Objects = Rpc.DurableObjectBranded | undefined;

/** The same namespace. `prepare` runs before an object is constructed for the first time. */
export function prepared<T extends Objects>(
  objects: DurableObjectNamespace<T>,
  prepare: (name: string) => void,
): DurableObjectNamespace<T> {
  const known = new Set<string>();
  return new Proxy(objects, {
    get(target, key) {
      if (key !== "getByName") return Reflect.get(target, key) as unknown;
      return (name: string) => {
        if (!known.has(name)) prepare(name);
        known.add(name);
        return target.getByName(name);
      };
    },
  });
}

/** Runs `work` in the object, which starts if it does not run. */
export function inObject<T, R>(
  stub: object,
  work: (object: T, ctx: DurableObjectState) => R | Promise<R>,
): Promise<R> {
  const plain = stub as DurableObjectStub;
  return runInDurableObject(plain, (object, ctx) => work(object as unknown as T, ctx));
}

/** All its jobs become due, and its alarm comes. The job queue uses the machine's clock. */
export async function wakeAll(stub: object): Promise<void> {
  await inObject(stub, (_, { storage: { sql } }) => {
    const made = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'cf_agents_jobs'").toArray();
    // The SQL comment keeps it from being counted as a write of the scenario.
    if (made.length > 0) {
      sql.exec("/* time */ UPDATE cf_agents_jobs SET time = min(time, ?)", Date.now());
    }
  });
  await runDurableObjectAlarm(stub as DurableObjectStub);
}

/** The alarm comes until nothing is left to do, for a step that continues from there. */
export async function rest(stub: () => object, isAtRest: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + HANG_MS;
  while (performance.now() < deadline) {
    // Not a bound: what needs the alarm gets it.
    const isQuiet = await until(isAtRest, 120).catch(() => false);
    // A crash may still come.
    await sleep(10);
    if (isQuiet && (await isAtRest())) return;
    await wakeAll(stub());
  }
  throw new Error(`The object did not come to rest within ${HANG_MS} ms`);
}

/** A state for each play, by the name of its object. */
export class PerPlay<State> {
  readonly #states = new Map<string, State>();

  constructor(private readonly make: (name: string) => State) {}

  of(name: string): State {
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const made = this.make(name);
    this.#states.set(name, made);
    return made;
  }
}

/** A problem in words where the two differ, else nothing. */
export function differs(what: string, found: unknown, expected: unknown): string[] {
  const [is, should] = [JSON.stringify(found), JSON.stringify(expected)];
  return is === should ? [] : [`${what}: ${is}, expected ${should}`];
}

/** Calls again if the object crashes meanwhile: a crash may come as late as the last look at it. */
export async function surely<R>(ask: () => Promise<R>): Promise<R> {
  try {
    return await ask();
  } catch (error) {
    if (!String(error).includes("crash of a test")) throw error;
    return ask();
  }
}
