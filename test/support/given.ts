/** New objects, messages and waiting, for all tests. */

import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import type { Count, Meter } from "../../src/testing/index.ts";
import type { TurnScript } from "./objects/ledger-object.ts";
import { HANG_MS } from "./sizes.ts";

let made = 0;

/** A new LedgerObject. */
export function givenLedger() {
  return env.LedgerObject.getByName(`ledger-${++made}-${crypto.randomUUID()}`);
}

/** A new DurableThink agent, unless the name is known. */
export function givenThink(name = `think-${++made}-${crypto.randomUUID()}`) {
  return env.ThinkAgent.getByName(name);
}

export function message(script: TurnScript | string, id: string = crypto.randomUUID()): UIMessage {
  const text = typeof script === "string" ? script : JSON.stringify(script);
  return { id, role: "user", parts: [{ type: "text", text }] };
}

/** Every object crashes, as when the machine does. Storage stays. */
export function crash(): Promise<void> {
  return abortAllDurableObjects();
}

/**
 * Polls until `probe` returns something. The state must stay: what passes is seen by a signal. A hang ends it after
 * `timeoutMs`, which no test shortens.
 */
export async function until<T>(
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs = HANG_MS,
): Promise<T> {
  // Date is virtual in some tests.
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found) return found;
    if (performance.now() > deadline)
      throw new Error(`until(): the condition was not met within ${timeoutMs} ms: ${probe}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * Counts what `work`, and everything that it started, does to the storage of an object. The work after an answer, such as
 * forgetting its delivery, has no state to wait for: it is over when the counts stay the same.
 */
export async function counted(
  stub: DurableObjectStub<undefined>,
  work: () => Promise<unknown>,
): Promise<Count> {
  const onMeter = <T>(use: (meter: Meter) => T) =>
    runInDurableObject(stub, (object) => use((object as unknown as { meter: Meter }).meter));
  const settled = () => {
    let last = "";
    let same = 0;
    return until(async () => {
      const count = await onMeter((meter) => meter.read());
      same = JSON.stringify(count) === last ? same + 1 : 0;
      last = JSON.stringify(count);
      return same === 15 && count;
    });
  };
  await settled();
  await onMeter((meter) => meter.reset());
  await work();
  return settled();
}

/**
 * The error that a call is refused with. `expect(call).rejects` would leave the
 * platform's own promise of an RPC call unhandled.
 */
export async function refusal(call: PromiseLike<unknown>): Promise<Error> {
  try {
    await call;
  } catch (error) {
    return error as Error;
  }
  throw new Error("The call succeeded and should have been refused");
}
