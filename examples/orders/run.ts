/**
 * Plays the parts around the shop: the customer, Stripe, and the person who opens the link. With `crash` it kills the runtime
 * three times. Checks that one e-mail was sent, by the log of all runtimes.
 */

import { setTimeout as sleep } from "node:timers/promises";
import Stripe from "stripe";
import { call, type Run } from "../runtime.ts";

const POLL_MS = 200;
const ORDER = { id: "order-1", email: "ada@example.com", amount: 80 };
const ENDED = ["complete", "errored", "terminated"];

type State = { status: string; output?: unknown; error?: unknown; link?: string };

/** Resolves with whether the order was completed, with one e-mail. */
export async function runOrders(secret: string, run: Run): Promise<boolean> {
  const { runtime } = run;
  await call(runtime, "orders", ORDER);
  console.log("  placed the order");
  await kill(run);

  console.log("  Stripe reports the payment:", await pay(run, secret));
  await kill(run);
  console.log("  Stripe reports it again:", await pay(run, secret));

  const { link = "" } = await stateWhen(run, (state) => state.link !== undefined);
  const { pathname, search } = new URL(link);
  const url = `${runtime.url}${pathname}${search}`;
  const page = await fetch(url);
  console.log(`  the link shows a page: ${page.status}`);
  // Not after the approval: the runtime logs an e-mail after it has accepted it, and a kill in between would lose the line.
  await kill(run);
  const [first, second] = [await press(url), await press(url)];
  console.log(`  its button approves: ${first}, and a second time: ${second}`);

  const { status, output, error } = await stateWhen(run, (state) => ENDED.includes(state.status));
  const mails = await mailsTo(run);
  console.log(`orders: ${status}, ${mails} e-mail sent`, JSON.stringify(output ?? error));
  return status === "complete" && mails === 1;
}

/** Posts an event as Stripe does, and returns the answer. */
async function pay({ runtime }: Run, secret: string): Promise<unknown> {
  const payload = JSON.stringify({
    id: "evt_1",
    object: "event",
    type: "payment_intent.succeeded",
    data: { object: { object: "payment_intent", amount: 8000, metadata: { orderId: ORDER.id } } },
  });
  const headers = {
    "Content-Type": "application/json",
    "Stripe-Signature": Stripe.webhooks.generateTestHeaderString({ payload, secret }),
  };
  const request = { method: "POST", headers, body: payload };
  return (await fetch(`${runtime.url}/hooks/stripe`, request)).json();
}

async function press(url: string): Promise<number> {
  return (await fetch(url, { method: "POST" })).status;
}

async function kill({ runtime, crash, signal }: Run): Promise<void> {
  if (!crash) return;
  await runtime.kill();
  console.log("  killed the runtime");
  await runtime.start(signal);
  await runtime.resume(signal);
}

async function stateWhen({ runtime, signal }: Run, is: (state: State) => boolean): Promise<State> {
  for (;;) {
    const state = await call<State>(runtime, `orders/${ORDER.id}`);
    if (is(state)) return state;
    await sleep(POLL_MS, undefined, { signal });
  }
}

/** Waits until an e-mail was logged, and for a second one after it. */
async function mailsTo({ runtime, signal }: Run): Promise<number> {
  const count = () =>
    runtime.logTail(Number.POSITIVE_INFINITY).split(`To: ${ORDER.email}`).length - 1;
  while (count() === 0) await sleep(POLL_MS, undefined, { signal });
  await sleep(5 * POLL_MS);
  return count();
}
