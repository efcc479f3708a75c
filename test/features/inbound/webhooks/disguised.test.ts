/** Requests that are signed, and are sent again as something else: the headers of a request are not signed. */

import { beforeEach, expect, it, vi } from "vitest";
import {
  discord,
  github,
  linear,
  slack,
  slackApprovals,
  webhooks,
} from "../../../../src/features/inbound/webhooks/index.ts";
import { FakeAgent } from "./fakes.ts";
import {
  clickOfSlack,
  FORM,
  hmac,
  ofSlack,
  posted,
  receive,
  recording,
} from "./presets/receive.ts";

const lines: string[] = [];
beforeEach(() => {
  lines.length = 0;
  vi.spyOn(console, "warn").mockImplementation((line) => void lines.push(String(line)));
});

const click = {
  type: "block_actions",
  user: { id: "U0ADA", username: "ada" },
  actions: [{ action_id: "perdure:grant", value: "perdure:grant:a1:desk" }],
};
const hidden = `&payload=${encodeURIComponent(JSON.stringify(click))}&`;

it("an event of Slack that is sent again as a form starts nothing, and decides nothing", async () => {
  const agent = new FakeAgent();
  const { arrivals, options } = recording(agent);
  const event = {
    type: "event_callback",
    event_id: "Ev1",
    event: { type: "message", text: hidden },
  };
  const request = ofSlack(event, { "content-type": FORM });
  const response = await receive(
    slack({ ...options, approvals: slackApprovals(() => true) }),
    request,
  );
  expect(response.status).toBe(400);
  expect(arrivals).toEqual([]);
  expect(agent.requests).toEqual([]);
});

it("a JSON delivery of GitHub that is sent again as a form starts nothing", async () => {
  const { arrivals, options } = recording();
  for (const space of ["", " \n"]) {
    const body = `${space}${JSON.stringify({ issue: { title: hidden } })}`;
    const request = posted("/hooks/github", body, {
      "content-type": FORM,
      "x-hub-signature-256": `sha256=${hmac(body)}`,
      "x-github-delivery": "another",
      "x-github-event": "issues",
    });
    expect((await receive(github(options), request)).status).toBe(400);
  }
  expect(arrivals).toEqual([]);
});

it("the outcome of a click is posted to Slack only", async () => {
  const posts = vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response());
  const { options } = recording(
    new FakeAgent(({ call }) => call && { verdict: "accepted", result: { outcome: "not_found" } }),
  );
  const endpoint = slack({ ...options, approvals: slackApprovals(() => true) });
  const urls = ["http://127.0.0.1:1/x", "https://hooks.slack.com.evil.example/", "x", undefined];
  for (const response_url of urls) {
    const response = await receive(
      endpoint,
      clickOfSlack({ ...click, ...(response_url && { response_url }) }),
    );
    expect(response.status).toBe(200);
  }
  expect(posts).not.toHaveBeenCalled();
  await receive(
    endpoint,
    clickOfSlack({ ...click, response_url: "https://hooks.slack.com/actions/T/1/x" }),
  );
  expect(posts).toHaveBeenCalledOnce();
  expect(String(posts.mock.calls[0]?.[1]?.body)).not.toContain("undefined");
  posts.mockRestore();
});

it("an id that no workflow can have is replaced by its hash", async () => {
  const { arrivals, options } = recording();
  const body = JSON.stringify({ action: "opened" });
  await receive(
    github(options),
    posted("/hooks/github", body, {
      "x-hub-signature-256": `sha256=${hmac(body)}`,
      "x-github-delivery": "-abc",
      "x-github-event": "issues",
    }),
  );
  expect(arrivals[0]?.id).toMatch(/^[\da-f]{64}$/);
});

it("neither what a method says of its arguments nor a secret in place of its name is logged", async () => {
  const { options } = recording(
    new FakeAgent(({ call }) =>
      call
        ? {
            verdict: "refused",
            error: { name: "InvalidDestinationError", message: "Invalid id PRIVATE" },
          }
        : undefined,
    ),
  );
  const body = JSON.stringify({ action: "opened" });
  const response = await receive(
    github(options),
    posted("/hooks/github", body, {
      "x-hub-signature-256": `sha256=${hmac(body)}`,
      "x-github-delivery": "d1",
      "x-github-event": "issues",
    }),
  );
  expect(response.status).toBe(500);
  const endpoint = linear({ ...options, secret: "lin_wh_0123456789abcdefghij" });
  expect((await receive(endpoint, posted("/hooks/linear", "{}"))).status).toBe(503);
  expect(lines).toHaveLength(2);
  expect(lines[0]).toContain("InvalidDestinationError");
  expect(lines.join("")).not.toMatch(/PRIVATE|lin_wh_0/);
});

it("options that are missing altogether are an error of the options", () => {
  for (const none of [null, undefined]) {
    expect(() => github(none as never)).toThrow(
      expect.objectContaining({ name: "InvalidOptionError" }),
    );
    expect(() => discord(none as never)).toThrow(
      expect.objectContaining({ name: "InvalidOptionError" }),
    );
  }
  expect(() => webhooks([] as never)).toThrow("endpoint");
});
