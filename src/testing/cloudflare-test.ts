/** Loads `cloudflare:test` on demand, because the models and the meter also run in plain workers. */

type CloudflareTest = typeof import("cloudflare:test");

const REMEDY =
  "This part of perdure/testing needs Vitest with @cloudflare/vitest-plugin. Only the models and the meter run in any worker.";

/** @throws Error outside of Vitest */
function load(): Promise<CloudflareTest> {
  return import("cloudflare:test").catch((cause: unknown) => {
    throw new Error(REMEDY, { cause });
  });
}

/** Runs `work` in the object, which is constructed if necessary. Does not start its Lifecycle. */
export async function inObject<T>(
  stub: DurableObjectStub,
  work: (object: DurableObject, ctx: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  const { runInDurableObject } = await load();
  return runInDurableObject<DurableObject, T>(stub, work);
}

/** Runs the object's alarm now, due or not. Returns false when it has none. */
export async function ringAlarm(stub: DurableObjectStub): Promise<boolean> {
  const { runDurableObjectAlarm } = await load();
  return runDurableObjectAlarm(stub);
}
