/** Batches of Meta: each message, status and other change is an arrival. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { type MetaBody, meta } from "../../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent } from "../fakes.ts";
import { hmac, posted, receive, recording } from "./receive.ts";

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});

const message = (id: string, from = "49170") => ({ id, from, timestamp: "1", type: "text" });
const change = (value: object, field = "messages") => ({ field, value });
const account = (id: string, ...changes: object[]) => ({ id, changes });

function send(entry: readonly object[], object = "whatsapp_business_account") {
  const body = JSON.stringify({ object, entry });
  return posted("/hooks/meta", body, { "x-hub-signature-256": `sha256=${hmac(body)}` });
}

/** An endpoint whose agents are those that `keyOf` names. */
function routed(keyOf: (body: MetaBody) => string | undefined, extra: object = {}) {
  const { options, arrivals } = recording();
  const agents = new Map<string, FakeAgent>();
  const agent = ({ body }: { body: MetaBody }) => {
    const key = keyOf(body) ?? "none";
    const found = agents.get(key) ?? new FakeAgent();
    agents.set(key, found);
    return found;
  };
  const endpoint = meta({ ...options, ...extra, verifyToken: "VERIFY", agent } as never);
  return { endpoint, arrivals, agents };
}
const getAccount = ({ entry }: MetaBody) => entry[0]?.id;
const getValue = ({ entry }: MetaBody) => entry[0]?.changes?.[0]?.value;

describe("a batch of Meta", () => {
  it("has an arrival for each field: `events` leaves out the others", async () => {
    const { endpoint, arrivals } = routed(getAccount, { events: ["messages"] });
    const update = change({ event: "VERIFIED_ACCOUNT" }, "account_update");
    const response = await receive(
      endpoint,
      send([account("1", update, change({ messages: [message("wamid_1")] }))]),
    );
    expect(await response.json()).toMatchObject({ verdict: "accepted", id: "wamid_1" });
    expect(arrivals).toMatchObject([{ id: "wamid_1", type: "messages" }]);
  });

  it("goes to the agent of each account, and of each person who wrote", async () => {
    const both = change({
      contacts: [{ wa_id: "49170" }, { wa_id: "49171" }],
      messages: [message("wamid_2"), message("wamid_3", "49171")],
      statuses: [{ id: "wamid_0", status: "read", recipient_id: "49171" }],
    });
    const entry = [account("1", change({ messages: [message("wamid_1")] })), account("2", both)];
    const byAccount = routed(getAccount);
    await receive(byAccount.endpoint, send(entry));
    expect([...byAccount.agents].map(([key, { calls }]) => [key, calls.length])).toEqual([
      ["1", 1],
      ["2", 3],
    ]);
    const byPerson = routed((body) => getValue(body)?.contacts?.[0]?.wa_id);
    await receive(byPerson.endpoint, send(entry));
    expect([...byPerson.agents.keys()]).toEqual(["none", "49170", "49171"]);
    const ofOne = byPerson.arrivals.map(({ body }) => getValue(body as MetaBody));
    expect(ofOne.map((value) => value?.messages?.map(({ id }) => id) ?? "status")).toEqual([
      ["wamid_1"],
      ["wamid_2"],
      ["wamid_3"],
      "status",
    ]);
  });

  it("of Messenger has an arrival for each message", async () => {
    const { endpoint, arrivals } = routed(getAccount);
    const said = (mid: string) => ({
      sender: { id: "7" },
      recipient: { id: "1" },
      message: { mid },
    });
    await receive(
      endpoint,
      send([{ id: "1", time: 5, messaging: [said("m_1"), said("m_2")] }], "page"),
    );
    expect(arrivals).toMatchObject([
      {
        id: "m_1",
        type: "page",
        body: { entry: [{ id: "1", time: 5, messaging: [said("m_1")] }] },
      },
      { id: "m_2", type: "page" },
    ]);
  });

  it("I1: a message that comes again in another batch is a duplicate with an equal body", async () => {
    const { endpoint, agents } = routed(getAccount);
    const first = change({ messages: [message("wamid_1")] });
    await receive(endpoint, send([account("1", first)]));
    const again = send([account("1", change({ messages: [message("wamid_2")] }), first)]);
    expect((await receive(endpoint, again)).status).toBe(200);
    const { calls, requests } = agents.get("1") as FakeAgent;
    expect(calls.map(({ args }) => args)).toEqual([["wamid_1"], ["wamid_2"]]);
    const [hash, , repeated] = requests.map(({ arrival }) => arrival.hash);
    expect(repeated).toBe(hash);
  });

  it("is repeated as a whole where an agent refuses its part, and the others are accepted", async () => {
    const { options } = recording();
    const full = new FakeAgent(({ arrival: { id } }) =>
      id === "wamid_1"
        ? { verdict: "refused", error: { name: "BacklogFullError", message: "" }, retryAfter: 9 }
        : undefined,
    );
    const endpoint = meta({ ...options, verifyToken: "VERIFY", agent: () => full } as never);
    const changes = ["wamid_1", "wamid_2"].map((id) => change({ messages: [message(id)] }));
    const response = await receive(endpoint, send([account("1", ...changes)]));
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "9"]);
    expect(full.calls.map(({ args }) => args)).toEqual([["wamid_2"]]);
  });
});
