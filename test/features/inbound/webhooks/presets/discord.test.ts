/** What the preset of Discord makes of interactions, and how it answers them. */

import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import type { Json } from "../../../../../src/core/json.ts";
import {
  approvalComponents,
  discord,
  discordApprovals,
} from "../../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent } from "../fakes.ts";
import { ofDiscord, receive, recording } from "./receive.ts";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const KEY = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex");
const ENV = { DISCORD_PUBLIC_KEY: KEY };

function prepared(agent?: FakeAgent) {
  const { options, ...rest } = recording(agent);
  const { secret: _, ...others } = options;
  return { ...rest, options: { ...others, publicKey: "DISCORD_PUBLIC_KEY" } };
}

const interaction = (type: number, fields: object = {}) => ({
  id: "846462639134605312",
  type,
  application_id: "845027738276462632",
  token: "aW50ZXJhY3Rpb246dG9rZW4",
  channel_id: "772908445358620702",
  member: { user: { id: "53908232506183680", username: "ann" }, roles: [] },
  ...fields,
});
const send = (endpoint: Parameters<typeof receive>[0], body: object) =>
  receive(endpoint, ofDiscord(body, privateKey), ENV);
const approval = { approvalId: "a2f0c1d4-0000-4000-8000-000000000001" };
const buttons = (
  approvalComponents(approval, { agent: "deployer:eu" }) as {
    components: { custom_id: string }[];
  }[]
)[0]?.components;

describe("an interaction of Discord", () => {
  it("answers a PING with a PONG, without an agent", async () => {
    const { agent, options } = prepared();
    const response = await send(discord(options), { id: "1", type: 1 });
    expect(await response.json()).toEqual({ type: 1 });
    expect(agent.requests).toEqual([]);
  });

  it("is answered with a deferred message once it is accepted, and replies in its place", async () => {
    const { arrivals, options } = prepared();
    const response = await send(discord(options), interaction(2, { data: { name: "deploy" } }));
    expect(await response.json()).toEqual({ type: 5 });
    expect(arrivals[0]).toMatchObject({
      source: "discord",
      id: "846462639134605312",
      type: "command",
      reply: {
        kind: "discord",
        application: "845027738276462632",
        interaction: "aW50ZXJhY3Rpb246dG9rZW4",
      },
    });
    expect(arrivals[0]).not.toHaveProperty("click");
  });

  it.each([
    [2, { type: 5 }, { type: 4, data: { content: "Nothing was started.", flags: 64 } }],
    [3, { type: 5 }, { type: 6 }],
    [4, { type: 8, data: { choices: [] } }, { type: 8, data: { choices: [] } }],
    [5, { type: 5 }, { type: 4, data: { content: "Nothing was started.", flags: 64 } }],
  ])(
    "of type %i is answered, whether it is accepted or filtered",
    async (type, accepted, filtered) => {
      const { options } = prepared();
      expect(await (await send(discord(options), interaction(type))).json()).toEqual(accepted);
      const nobody = { ...options, agent: () => null, handle: () => {} };
      const none = await send(discord(nobody), interaction(type));
      expect([none.status, await none.json()]).toEqual([200, filtered]);
      const other = await send(discord({ ...options, events: ["other"] }), interaction(type));
      expect(await other.json()).toEqual(filtered);
    },
  );

  it("is not answered with a deferred message where the agent refuses it", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const refusing = new FakeAgent(() => ({
      verdict: "refused",
      error: { name: "BacklogFullError", message: "full" },
      retryAfter: 30,
    }));
    const { options } = prepared(refusing);
    const response = await send(discord(options), interaction(2));
    expect(response.status).toBe(429);
    expect(response.headers.get("retry-after")).toBe("30");
  });

  it("needs a public key, and takes no secret", () => {
    const { options } = prepared();
    const { publicKey: _, ...without } = options;
    expect(() => discord(without as never)).toThrow("publicKey");
    expect(() => discord({ ...options, secret: "S" } as never)).toThrow('Unknown option "secret"');
    expect(() => discord({ ...options, publicKey: KEY })).toThrow("publicKey");
  });
});

describe("a click on an approval's button in Discord", () => {
  const clicked = (custom_id: string | undefined, message: object = { content: "Deploy?" }) =>
    interaction(3, { data: { custom_id, component_type: 2 }, message });
  const deciding = (result: Json) =>
    new FakeAgent(({ call }) => call && { verdict: "accepted", result });

  it("is the handler's without the option `approvals`", async () => {
    const { arrivals, options } = prepared();
    const response = await send(discord(options), clicked(buttons?.[1]?.custom_id));
    expect(await response.json()).toEqual({ type: 5 });
    expect(arrivals[0]).not.toHaveProperty("click");
    expect(arrivals[0]?.body).toMatchObject({ data: { custom_id: buttons?.[1]?.custom_id } });
  });

  it("decides if the person may, and replaces the buttons by the outcome", async () => {
    const agent = deciding({ outcome: "decided", approval: { status: "approved", by: "ann" } });
    const { arrivals, options } = prepared(agent);
    const endpoint = discord({
      ...options,
      approvals: discordApprovals((click) => click.by.includes("ann")),
    });
    const response = await send(endpoint, clicked(buttons?.[0]?.custom_id));
    const content = "Deploy?\nThis approval is approved, by ann.";
    expect(await response.json()).toEqual({
      type: 7,
      data: { content, components: [], allowed_mentions: { parse: [] } },
    });
    const by = "discord:53908232506183680 (ann)";
    expect(agent.requests.map(({ call }) => call)).toEqual([
      { ordinal: 0, verb: "approvals.grant", args: [approval.approvalId, { by }] },
    ]);
    expect(arrivals).toEqual([]);
  });

  it("is decided also where `events` does not have its type, if the option `approvals` is set", async () => {
    const agent = deciding({ outcome: "decided", approval: { status: "approved", by: "ann" } });
    const { arrivals, options } = prepared(agent);
    const events = ["command"];
    const endpoint = discord({ ...options, events, approvals: discordApprovals(() => true) });
    const response = await send(endpoint, clicked(buttons?.[0]?.custom_id));
    expect(await response.json()).toMatchObject({ type: 7 });
    expect(agent.requests.map(({ call }) => call?.verb)).toEqual(["approvals.grant"]);
    await send(endpoint, clicked("deploy"));
    await send(discord({ ...options, events }), clicked(buttons?.[0]?.custom_id));
    expect(agent.requests).toHaveLength(1);
    expect(arrivals).toEqual([]);
  });

  it("is refused with a sentence that only the person sees, and nothing is decided", async () => {
    const { agent, options } = prepared();
    const endpoint = discord({ ...options, approvals: discordApprovals(async () => false) });
    const response = await send(endpoint, clicked(buttons?.[0]?.custom_id));
    const content = "You may not decide this approval.";
    expect([response.status, await response.json()]).toEqual([
      200,
      { type: 4, data: { content, flags: 64 } },
    ]);
    expect(agent.calls).toEqual([]);
  });

  it("tells only the person where the approval is unknown, or the message has no text", async () => {
    const unknown = deciding({ outcome: "not_found", approvalId: "x" });
    const decided = deciding({ outcome: "decided", approval: { status: "approved", by: "ann" } });
    for (const [agent, message] of [
      [unknown, { content: "Deploy?" }],
      [decided, { content: "", flags: 32_768 }],
    ] as const) {
      const { options } = prepared(agent);
      const endpoint = discord({ ...options, approvals: discordApprovals(() => true) });
      const response = await send(endpoint, clicked(buttons?.[0]?.custom_id, message));
      expect(await response.json()).toMatchObject({ type: 4, data: { flags: 64 } });
    }
  });

  it("is none where the button is the app's", async () => {
    const { arrivals, options } = prepared();
    for (const id of ["deploy", "perdure:grant", "perdure:other:a:b", "xperdure:grant:a:b"])
      await send(discord(options), clicked(id));
    expect(arrivals.filter((arrival) => "click" in arrival)).toEqual([]);
  });
});

describe("approvalComponents()", () => {
  it("makes two buttons whose ids fit, and refuses a name of an agent that does not", () => {
    const components = approvalComponents(approval, { agent: "n".repeat(48) });
    expect(components).toMatchObject([
      {
        type: 1,
        components: [
          { type: 2, style: 3, label: "Approve" },
          { type: 2, style: 4, label: "Reject" },
        ],
      },
    ]);
    expect(() => approvalComponents(approval, { agent: "n".repeat(49) })).toThrow(
      "a button may have 100 characters",
    );
  });
});
