/** What the tests of turns by the AI SDK begin with. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import type { SdkObject } from "./sdk-object.ts";

/** Runs `work` in an object of the plain host, a fresh one unless it has a name. */
export function inside<T>(
  work: (object: SdkObject) => Promise<T>,
  name: string = crypto.randomUUID(),
): Promise<T> {
  const stub = env.SdkObject.getByName(name) as unknown as DurableObjectStub<SdkObject>;
  return runInDurableObject(stub, (object) => work(object));
}

/** A turn as the ledger knows it. */
export const turnWith = (messages: UIMessage[], submissionId = "sub") => ({
  submissionId,
  thread: "support",
  messages,
});

export const call = (name: string) => ({ name, input: {} });
