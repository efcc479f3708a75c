/** Attempts of the webhook destination, and the words for what came of them. */

import { expect } from "vitest";
import { KINDS } from "../../../src/outbox/destinations/kinds.generated.ts";
import type { WebhookDestination } from "../../../src/outbox/destinations/webhook.ts";
import type { Delivery } from "../../../src/outbox/index.ts";
import { FIRST } from "../../support/attempts.ts";
import { receivedBy, receiverUrl, someReceiver } from "../../support/receivers/client.ts";
import type { SignedHeaders } from "../../support/receivers/signature.ts";

export const NEW = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
export const OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
export const STRANGER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

export const env = {
  NEW,
  OLD,
  BARE: NEW.slice("whsec_".length),
  PASTED: `  ${NEW}\n`,
  VERSIONED: `v1,${NEW}`,
  EMPTY: "",
  PREFIX_ONLY: "whsec_",
  PLAIN: "correct horse battery staple!",
  STORED: { get: async () => NEW },
  LOST: { get: () => Promise.reject(new Error("no such secret")) },
  HANGING: { get: () => new Promise(() => {}) },
};

const adapter = KINDS.webhook.connect({ env, allowPrivateAddresses: true, now: Date.now });

export function to(url: string, ...secrets: string[]): WebhookDestination {
  return { kind: "webhook", url, secrets: secrets.length > 0 ? secrets : ["NEW"] };
}

export function some(event: unknown = { type: "done" }): Delivery {
  return { id: "e:0", attempt: 1, event };
}

type Verdict = { failure: Error | undefined; ms: number };

/** What came of one attempt, and how long it took. */
export async function attempt(
  destination: WebhookDestination,
  { delivery = some(), signal = AbortSignal.timeout(10_000), by = adapter } = {},
): Promise<Verdict> {
  const begun = Date.now();
  const failure = await by.deliver(destination, delivery, signal, FIRST).then(
    () => undefined,
    (error: Error) => error,
  );
  return { failure, ms: Date.now() - begun };
}

export const taken = { failure: undefined };

/** Tried again: any failure that is not known to be for good. */
export function retried(message: RegExp, statusCode?: number) {
  const matching = expect.stringMatching(message);
  return {
    failure: expect.objectContaining({ name: "EndpointError", message: matching, statusCode }),
  };
}

export function undeliverable(message: RegExp, isGone = false) {
  const matching = expect.stringMatching(message);
  return {
    failure: expect.objectContaining({ name: "UndeliverableError", message: matching, isGone }),
  };
}

/** What one receiver got from one delivery. */
export async function arrivalOf(secrets: string[], delivery = some(), by = adapter) {
  const me = someReceiver();
  expect(await attempt(to(receiverUrl(`/ok/${me}`), ...secrets), { delivery, by })).toMatchObject(
    taken,
  );
  const [request, ...others] = await receivedBy(me);
  expect(others).toEqual([]);
  if (request === undefined) throw new Error("Nothing arrived");
  return { ...request, headers: request.headers as SignedHeaders & Record<string, string> };
}
