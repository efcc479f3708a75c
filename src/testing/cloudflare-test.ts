/**
 * What the kit needs of the Vitest integration of Workers, loaded when it is
 * needed: the models and the meter are used in plain workers, too.
 */

type CloudflareTest = typeof import("cloudflare:test");

/** @throws Error outside of Vitest: it says what is needed */
async function load(): Promise<CloudflareTest> {
  try {
    return await import("cloudflare:test");
  } catch (error) {
    throw new Error(
      "This part of perdure/testing runs in Vitest with @cloudflare/vitest-plugin only; the models and the meter run anywhere.",
      { cause: error },
    );
  }
}

/** Runs `work` in the object's present life, which may begin with it; starts no room. */
export async function inObject<T>(
  stub: DurableObjectStub,
  work: (object: DurableObject, ctx: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  const { runInDurableObject } = await load();
  return runInDurableObject<DurableObject, T>(stub, work);
}

/** The object's alarm comes now, due or not. Returns false when it has none. */
export async function ringAlarm(stub: DurableObjectStub): Promise<boolean> {
  const { runDurableObjectAlarm } = await load();
  return runDurableObjectAlarm(stub);
}
