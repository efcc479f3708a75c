/** What the preset of Slack makes of events, clicks and commands, and how it answers them. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Json } from "../../../../../src/core/json.ts";
import {
  approvalBlocks,
  slack,
  slackApprovals,
} from "../../../../../src/features/inbound/webhooks/index.ts";
import { sha256Hex } from "../../../../../src/features/inbound/webhooks/verify.ts";
import { FakeAgent } from "../fakes.ts";
import { clickOfSlack, ofSlack, posted, receive, recording } from "./receive.ts";

beforeEach(() => {
  vi.restoreAllMocks();
});

const event = (fields: object) => ({
  type: "event_callback",
  team_id: "T1",
  event_id: "Ev0123ABCD",
  event: { type: "app_mention", user: "U1", text: "hello", ...fields },
});

describe("an event of Slack", () => {
  it("has the id and the type of the event, and replies in the thread of the message", async () => {
    const { arrivals, options } = recording();
    const endpoint = slack({ ...options, token: "SLACK_BOT_TOKEN" });
    const response = await receive(endpoint, ofSlack(event({ channel: "C1", ts: "1.5" })));
    expect(response.status).toBe(200);
    const id = "T1-C1-1-5-app_mention";
    expect(await response.json()).toEqual({ verdict: "accepted", id });
    expect(arrivals).toEqual([
      {
        source: "slack",
        id,
        type: "app_mention",
        body: event({ channel: "C1", ts: "1.5" }),
        receivedAt: expect.any(Number),
        reply: { kind: "slack", token: "SLACK_BOT_TOKEN", channel: "C1", thread: "1.5" },
      },
    ]);
  });

  it("I1: is one arrival of one body for each message, whatever its event ids", async () => {
    const { agent, options } = recording();
    const message = { channel: "C1", ts: "1712345678.000100" };
    const sent = [
      event(message),
      { ...event(message), event_id: "Ev2", event_time: 2 },
      event({ ...message, type: "message", subtype: "message_changed", ts: "1712345679.000200" }),
      event({ ...message, type: "reaction_added" }),
    ];
    for (const body of sent) await receive(slack(options), ofSlack(body));
    expect(agent.calls.map(({ args }) => args)).toEqual([
      ["T1-C1-1712345678-000100-app_mention"],
      ["T1-C1-1712345679-000200-message-message_changed"],
      ["Ev0123ABCD"],
    ]);
    const [first, second] = agent.requests.map(({ arrival }) => arrival.hash);
    expect(second).toBe(first);
  });

  it("replies where the conversation is", async () => {
    const { arrivals, options } = recording();
    const endpoint = slack({ ...options, token: "T" });
    const places: readonly [fields: object, reply: object | undefined][] = [
      [
        { channel: "C1", ts: "2.0", thread_ts: "1.0" },
        { channel: "C1", thread: "1.0" },
      ],
      [{ channel: "D1", channel_type: "im", ts: "2.0" }, { channel: "D1" }],
      [
        { channel: "D1", channel_type: "im", ts: "2.0", thread_ts: "1.0" },
        { channel: "D1", thread: "1.0" },
      ],
      [
        { type: "reaction_added", item: { type: "message", channel: "C2", ts: "3.0" } },
        { channel: "C2", thread: "3.0" },
      ],
      [
        { subtype: "message_changed", channel: "C1", ts: "9.0", message: { ts: "2.0" } },
        { channel: "C1", thread: "2.0" },
      ],
      [
        { assistant_thread: { channel_id: "D2", thread_ts: "4.0" } },
        { channel: "D2", thread: "4.0" },
      ],
      [{ type: "channel_created", channel: { id: "C3" } }, undefined],
      [{ type: "team_join" }, undefined],
    ];
    for (const [fields, reply] of places) {
      await receive(endpoint, ofSlack(event(fields)));
      const expected = reply && { kind: "slack", token: "T", ...reply };
      expect(arrivals.at(-1)?.reply).toEqual(expected);
    }
  });

  it("has no reply without a token", async () => {
    const { arrivals, options } = recording();
    await receive(slack(options), ofSlack(event({ channel: "C1", ts: "1.5" })));
    expect(arrivals[0]?.reply).toBeUndefined();
  });

  it("is handled although it is a retry, and is a duplicate if it was accepted before", async () => {
    const { agent, options } = recording();
    const retry = { "x-slack-retry-num": "1", "x-slack-retry-reason": "http_timeout" };
    const answers: unknown[] = [];
    for (const headers of [retry, retry, {}]) {
      const response = await receive(slack(options), ofSlack(event({ channel: "C1" }), headers));
      answers.push([response.status, ((await response.json()) as { verdict: string }).verdict]);
    }
    expect(answers).toEqual([
      [200, "accepted"],
      [200, "duplicate"],
      [200, "duplicate"],
    ]);
    expect(agent.calls).toHaveLength(1);
  });
});

describe("the check of Slack's URL", () => {
  it("is answered with the challenge only if it is signed", async () => {
    const { agent, options } = recording();
    const body = { type: "url_verification", token: "t", challenge: "3eZbrw1a" };
    const response = await receive(slack(options), ofSlack(body));
    expect(await response.json()).toEqual({ challenge: "3eZbrw1a" });
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const unsigned = posted("/hooks/slack", JSON.stringify(body));
    const refused = await receive(slack(options), unsigned);
    expect(refused.status).toBe(401);
    expect(await refused.text()).not.toContain("3eZbrw1a");
    expect(agent.requests).toEqual([]);
  });
});

describe("a slash command of Slack", () => {
  // The vector of Slack's documentation.
  const KEY = "8f742231b10e8888abcd99yyyzzz85a5";
  const SECONDS = 1_531_420_618;
  const body =
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
  const signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
  const command = () =>
    posted("/hooks/slack", body, {
      "x-slack-request-timestamp": String(SECONDS),
      "x-slack-signature": signature,
    });

  it("has the hash as its id, replies to its own URL, and is answered with an empty 200", async () => {
    const { arrivals, options } = recording();
    const clock = { now: () => SECONDS * 1_000 };
    const response = await receive(slack({ ...options, clock }), command(), { SECRET: KEY });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
    expect(arrivals[0]).toMatchObject({
      id: await sha256Hex(body),
      type: "/webhook-collect",
      body: { team_id: "T1DC2JH3J", text: "", user_name: "roadrunner" },
      reply: {
        kind: "slack",
        responseUrl:
          "https://hooks.slack.com/commands/T1DC2JH3J/397700885554/96rGlfmibIGlgcZRskXaIFfN",
      },
    });
  });

  it("is refused when it is repeated later", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { arrivals, options } = recording();
    const clock = { now: () => (SECONDS + 301) * 1_000 };
    const response = await receive(slack({ ...options, clock }), command(), { SECRET: KEY });
    expect(response.status).toBe(401);
    expect(arrivals).toEqual([]);
  });

  it("is answered by the Response of the handler", async () => {
    const { options } = recording();
    const handle = async () => Response.json({ text: "Working on it" });
    const response = await receive(slack({ ...options, handle }), ofSlack("command=%2Fdeploy"));
    expect(await response.json()).toEqual({ text: "Working on it" });
  });

  it("answers the check of its certificate without an arrival", async () => {
    const { agent, options } = recording();
    const response = await receive(slack(options), ofSlack("ssl_check=1&token=t"));
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(agent.requests).toEqual([]);
  });
});

describe("a click on an approval's button in Slack", () => {
  const approval = { approvalId: "a2f0c1d4-0000-4000-8000-000000000001", title: "Deploy?" };
  const blocks = approvalBlocks(approval, { agent: "deployer" }) as {
    type: string;
    elements?: { action_id: string; value: string }[];
  }[];
  const [grant, reject] = blocks.at(-1)?.elements ?? [];
  const RESPONSE_URL = "https://hooks.slack.com/actions/T1/2/3";
  const payload = (action: object | undefined) => ({
    type: "block_actions",
    user: { id: "U1", username: "ann" },
    trigger_id: "1.2.3",
    response_url: RESPONSE_URL,
    message: { text: "Deploy?", ts: "1.0" },
    actions: [action],
  });
  /** The messages to the response URL. */
  const stubFetch = (answer: () => Promise<Response> = async () => new Response("ok")) => {
    const sent: unknown[] = [];
    vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
      sent.push({ url, ...(JSON.parse(String(init?.body)) as object) });
      return answer();
    });
    return sent;
  };
  const deciding = (result: Json) =>
    new FakeAgent(({ call }) => call && { verdict: "accepted", result });

  it("is the handler's without the option `approvals`", async () => {
    const { arrivals, options } = recording();
    const response = await receive(slack(options), clickOfSlack(payload(reject)));
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(arrivals[0]).toMatchObject({
      type: "block_actions",
      body: { actions: [{ value: `perdure:reject:${approval.approvalId}:deployer` }] },
      reply: { kind: "slack", responseUrl: RESPONSE_URL },
    });
  });

  it.each([
    [grant, "approvals.grant", "approved"],
    [reject, "approvals.reject", "rejected"],
  ] as const)(
    "decides if the person may, and shows it in the message (%#)",
    async (action, verb, status) => {
      const sent = stubFetch();
      const agent = deciding({ outcome: "decided", approval: { status, by: "slack:U1 (ann)" } });
      const { arrivals, options } = recording(agent);
      const asked: unknown[] = [];
      const endpoint = slack({
        ...options,
        approvals: slackApprovals(async (click) => {
          asked.push(click.by);
          return true;
        }),
      });
      const response = await receive(endpoint, clickOfSlack(payload(action)));
      expect(response.status).toBe(200);
      expect(arrivals).toEqual([]);
      expect(asked).toEqual(["slack:U1 (ann)"]);
      expect(agent.requests.map(({ call }) => call)).toEqual([
        { ordinal: 0, verb, args: [approval.approvalId, { by: "slack:U1 (ann)" }] },
      ]);
      expect(sent).toEqual([
        {
          url: RESPONSE_URL,
          response_type: "ephemeral",
          replace_original: true,
          text: `Deploy?\nThis approval is ${status}, by slack:U1 (ann).`,
        },
      ]);
    },
  );

  it("is decided also where `events` does not have its type, if the option `approvals` is set", async () => {
    stubFetch();
    const agent = deciding({ outcome: "decided", approval: { status: "approved" } });
    const { arrivals, options } = recording(agent);
    const events = ["app_mention"];
    const endpoint = slack({ ...options, events, approvals: slackApprovals(() => true) });
    expect((await receive(endpoint, clickOfSlack(payload(grant)))).status).toBe(200);
    expect(agent.requests.map(({ call }) => call?.verb)).toEqual(["approvals.grant"]);
    // Other clicks are filtered, and all are without `approvals`.
    await receive(endpoint, clickOfSlack(payload({ action_id: "deploy", value: "1" })));
    await receive(slack({ ...options, events }), clickOfSlack(payload(grant)));
    expect(agent.requests).toHaveLength(1);
    expect(arrivals).toEqual([]);
  });

  it("is refused with a sentence that only the person sees, and nothing is decided", async () => {
    const sent = stubFetch();
    const { agent, options } = recording();
    const endpoint = slack({ ...options, approvals: slackApprovals(() => false) });
    const response = await receive(endpoint, clickOfSlack(payload(grant)));
    const answer = {
      response_type: "ephemeral",
      replace_original: false,
      text: "You may not decide this approval.",
    };
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual(answer);
    expect(sent).toEqual([{ url: RESPONSE_URL, ...answer }]);
    expect(agent.calls).toEqual([]);
    // It is in the log of the agent, as an arrival that has started nothing.
    expect(agent.requests).toHaveLength(1);
  });

  it("is decided for true only, by a name of at most 200 characters", async () => {
    stubFetch();
    const agent = deciding({ outcome: "decided", approval: { status: "approved" } });
    const { options } = recording(agent);
    for (const answer of ["false", 1, {}, "yes"]) {
      const endpoint = slack({ ...options, approvals: slackApprovals(() => answer as never) });
      await receive(endpoint, clickOfSlack(payload(grant)));
    }
    expect(agent.calls).toEqual([]);
    const user = { id: "U1", username: `${"a".repeat(193)}\u{1F600}` };
    const endpoint = slack({ ...options, approvals: slackApprovals(() => true) });
    await receive(endpoint, clickOfSlack({ ...payload(grant), user }));
    const { by } = (agent.requests.at(-1)?.call?.args ?? [])[1] as { by: string };
    expect(by).toHaveLength(200);
    expect(by.isWellFormed()).toBe(true);
    expect(() => slackApprovals("yes" as never)).toThrow(
      /^Invalid mayDecide "yes": expected a fun/,
    );
  });

  it("says that a click is not enough for an approval with a schema", async () => {
    const sent = stubFetch();
    const error = { name: "InvalidApprovalError", message: "Invalid payload undefined" };
    const agent = new FakeAgent(({ call }) => call && { verdict: "refused", error });
    const { options } = recording(agent);
    const endpoint = slack({ ...options, approvals: slackApprovals(() => true) });
    expect((await receive(endpoint, clickOfSlack(payload(grant)))).status).toBe(200);
    const text = "This approval needs more than a click: its step has a schema.";
    expect(sent).toMatchObject([{ replace_original: false, text }]);
  });

  it("tells of an approval that is unknown, and of one that was decided before", async () => {
    const sent = stubFetch();
    const results = [
      { outcome: "not_found", approvalId: approval.approvalId },
      { outcome: "already_decided", approval: { status: "rejected", by: "slack:U2 (bob)" } },
    ];
    for (const result of results) {
      const { options } = recording(deciding(result));
      await receive(
        slack({ ...options, approvals: slackApprovals(() => true) }),
        clickOfSlack(payload(grant)),
      );
    }
    expect(sent).toMatchObject([
      { replace_original: false, text: "This approval does not exist any more." },
      {
        replace_original: true,
        text: "Deploy?\nThis approval is rejected, by slack:U2 (bob).",
      },
    ]);
  });

  it("is decided although Slack cannot be told, which is logged without the URL", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    stubFetch(async () => {
      throw new TypeError("no network");
    });
    const agent = deciding({ outcome: "decided", approval: { status: "approved" } });
    const { options } = recording(agent);
    const endpoint = slack({ ...options, approvals: slackApprovals(() => true) });
    expect((await receive(endpoint, clickOfSlack(payload(grant)))).status).toBe(200);
    expect(agent.requests).toHaveLength(1);
    expect(warn.mock.calls).toEqual([[expect.stringContaining("webhook:unanswered-click")]]);
    expect(String(warn.mock.calls[0])).not.toContain(RESPONSE_URL);
  });

  it("is answered with 429 and 500 where the agent refuses the decision", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const refusing = (retryAfter?: number) =>
      new FakeAgent(({ call }) =>
        call
          ? {
              verdict: "refused",
              error: { name: "E", message: "no" },
              ...(retryAfter && { retryAfter }),
            }
          : undefined,
      );
    for (const [retryAfter, status] of [
      [30, 429],
      [undefined, 500],
    ] as const) {
      const { options } = recording(refusing(retryAfter));
      const endpoint = slack({ ...options, approvals: slackApprovals(() => true) });
      expect((await receive(endpoint, clickOfSlack(payload(grant)))).status).toBe(status);
    }
  });

  it("is not taken for one where the value is the app's, and is malformed where it is no text", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { agent, arrivals, options } = recording();
    const endpoint = slack({ ...options, approvals: slackApprovals(() => true) });
    const values = [
      undefined,
      "",
      "1",
      "{}",
      "perdure:grant",
      "perdure:other:a:b",
      "xperdure:grant:a:b",
    ];
    for (const value of values) {
      const action = { action_id: "perdure:grant", value };
      expect((await receive(endpoint, clickOfSlack(payload(action)))).status).toBe(200);
      expect(arrivals.at(-1)).toMatchObject({ type: "block_actions" });
      expect(arrivals.at(-1)).not.toHaveProperty("click");
    }
    expect(arrivals).toHaveLength(values.length);
    expect(agent.requests.every(({ call }) => call?.verb === "start")).toBe(true);
    const response = await receive(endpoint, clickOfSlack(payload({ value: { grant: 1 } })));
    expect(response.status).toBe(400);
  });
});

describe("approvalBlocks()", () => {
  it("makes a section and two buttons within Slack's limits", () => {
    const blocks = approvalBlocks({ approvalId: "a-1", title: "x".repeat(5_000) }, { agent: "n" });
    expect(blocks).toMatchObject([
      { type: "section", text: { type: "plain_text", text: "x".repeat(3_000) } },
      {
        type: "actions",
        elements: [
          { type: "button", action_id: "perdure:grant", value: "perdure:grant:a-1:n" },
          { type: "button", action_id: "perdure:reject" },
        ],
      },
    ]);
    expect(approvalBlocks({ approvalId: "a-1", title: null }, { agent: "n" })).toMatchObject([
      { text: { text: "An approval is needed." } },
      {},
    ]);
  });

  it("refuses a name of an agent that does not fit", () => {
    const make = () =>
      approvalBlocks({ approvalId: "a", title: null }, { agent: "n".repeat(2_000) });
    expect(make).toThrow("expected a shorter name: a button may have 2000 characters");
  });
});
