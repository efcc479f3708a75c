/** How tests reach the receivers of server.ts. */

import { inject } from "vitest";
import type { Received, Sent } from "./server.ts";

let made = 0;

/** A name that no other test uses. */
export function someReceiver(): string {
  return `receiver-${++made}-${crypto.randomUUID()}`;
}

/** The URL of a behaviour, e.g. `receiverUrl("/status/500/me")`. */
export function receiverUrl(path: string): string {
  return `http://127.0.0.1:${inject("receivers").port}${path}`;
}

/** A URL without a listener. */
export function refusingUrl(): string {
  return `http://127.0.0.1:${inject("receivers").refusedPort}/`;
}

/** What came under a name, in order. */
export async function receivedBy(to: string): Promise<Received[]> {
  return (await fetch(receiverUrl(`/received?to=${to}`))).json();
}

/** How much of its huge answer a receiver could send. */
export async function sentBy(to: string): Promise<Sent | null> {
  return (await fetch(receiverUrl(`/sent?to=${to}`))).json();
}
