import { exports } from "cloudflare:workers";
import { expect, test, vi } from "vitest";

const worker = (exports as { default: Fetcher }).default;
const tickets = "https://support.example/tickets";

test("a ticket is triaged and saved, once for each id", async () => {
  const ticket = { method: "POST", headers: { "Idempotency-Key": "t-1" }, body: "It is on fire" };
  await worker.fetch(tickets, ticket);
  await worker.fetch(tickets, ticket); // the same request again

  const saved = [{ id: "t-1", title: "Printer on fire", priority: "high" }];
  const list = async () => (await worker.fetch(tickets)).json();
  const patience = { timeout: 240_000, interval: 200 };
  await vi.waitFor(async () => expect(await list()).toEqual(saved), patience);
});
