/** The door: every bad input gets its status and an error in JSON, and leaves no trace: no agent, so nothing stored. */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import worker from "../src/worker.ts";
import {
  agentsStored,
  changed,
  type Delivery,
  env,
  givenDelivery,
  operate,
  post,
  type Refusal,
  send,
  signatureOf,
} from "./given.ts";

const MAX_BODY_BYTES = 1024 * 1024;
const FORGED = `sha256=${"0".repeat(64)}`;

let before: string[];
beforeEach(async () => {
  before = await agentsStored();
});
afterEach(async () => {
  expect(await agentsStored()).toEqual(before);
});

function refused(status: number, error: string) {
  return { status, body: { error: expect.stringContaining(error) } };
}

function withBody(body: string): Delivery {
  return { ...givenDelivery(), body };
}

describe("the worker answers 401 for a signature that", () => {
  it("is missing", async () => {
    const answer = await post<Refusal>(givenDelivery(), { "X-Hub-Signature-256": undefined });
    expect(answer).toEqual(refused(401, "X-Hub-Signature-256 is missing"));
  });

  it.each([
    ["is another's", FORGED],
    ["has the right form but the wrong secret", () => signatureOf("{}", "guessed")],
    ["is of another body", () => signatureOf("{}")],
    ["is cut short", "sha256=abc"],
    ["is no hex", `sha256=${"z".repeat(64)}`],
    ["is SHA-1, GitHub's old one", `sha1=${"0".repeat(40)}`],
    ["has no algorithm", "0".repeat(64)],
    ["is longer than one", `${FORGED}0`],
  ])("%s", async (_, signature) => {
    const given = typeof signature === "string" ? signature : await signature();
    const answer = await post<Refusal>(givenDelivery(), { "X-Hub-Signature-256": given });
    expect(answer).toEqual(refused(401, "does not match the body"));
  });

  it("belongs to an empty body", async () => {
    expect(await post<Refusal>(withBody(""))).toEqual(refused(401, "does not match the body"));
  });

  it("is wrong, before it checks the body, the event or the headers", async () => {
    const answer = await post<Refusal>(withBody("{ not JSON"), {
      "X-Hub-Signature-256": FORGED,
      "X-GitHub-Event": "unknown",
      "X-GitHub-Delivery": undefined,
    });
    expect(answer).toEqual(refused(401, "does not match the body"));
  });
});

it.each([
  ["text", "not JSON"],
  ["a form, GitHub's other content type", "payload=%7B%22action%22%3A%22opened%22%7D"],
  ["cut off", '{"action":"opened"'],
])("the worker answers 400 for a body that is not JSON: %s", async (_, body) => {
  expect(await post<Refusal>(withBody(body))).toEqual(refused(400, "The body is not JSON"));
});

it.each(["X-GitHub-Event", "X-GitHub-Delivery"])(
  "the worker answers 400 without the header %s",
  async (header) => {
    const answer = await post<Refusal>(givenDelivery(), { [header]: undefined });
    expect(answer).toEqual(refused(400, `${header} is missing`));
  },
);

it.each([
  ["a character that no workflow id takes", "a/b"],
  ["81 characters", "a".repeat(81)],
])("the worker answers 400 for a delivery id with %s", async (_, id) => {
  const answer = await post<Refusal>({ ...givenDelivery(), id });
  expect(answer).toEqual(refused(400, "X-GitHub-Delivery must be"));
});

it.each(["push", "constructor"])(
  "the worker answers 422 for the unknown event %s",
  async (event) => {
    const answer = await post<Refusal>({ ...givenDelivery(), event });
    expect(answer).toEqual(refused(422, "Handled are: issues, issue_comment, pull_request"));
  },
);

describe("the worker answers 422 for a payload", () => {
  it.each(["null", "[]", '"text"', "1", "{}"])("that is %s", async (body) => {
    const answer = await post<Refusal>(withBody(body));
    expect(answer).toEqual(refused(422, "not one of a GitHub issues event"));
  });

  const issue = { number: 1, title: "A title" };
  it.each<[string, string, Record<string, unknown>]>([
    ["action", "action", { action: undefined }],
    ["repository", "repository", { repository: undefined }],
    ["name of its repository", "repository.full_name", { repository: {} }],
    ["issue", "issue", { issue: undefined }],
    ["issue, but with a pull request", "issue", { issue: undefined, pull_request: issue }],
    ["issue number", "issue.number", { issue: { title: "A title" } }],
    ["issue number above 0", "issue.number", { issue: { ...issue, number: 0 } }],
    ["text as its title", "issue.title", { issue: { ...issue, title: 5 } }],
    ["name for each label", "issue.labels.0.name", { issue: { ...issue, labels: [{}] } }],
  ])("without %s", async (_, path, fields) => {
    const answer = await post<Refusal>(changed(givenDelivery(), fields));
    expect(answer).toEqual(refused(422, path));
  });

  it("of a comment without the comment", async () => {
    const delivery = givenDelivery("issue_comment", "created");
    const answer = await post<Refusal>(changed(delivery, { comment: undefined }));
    expect(answer).toEqual(refused(422, "comment"));
  });

  it("of a pull request under the event of an issue", async () => {
    const answer = await post<Refusal>({ ...givenDelivery("pull_request"), event: "issues" });
    expect(answer).toEqual(refused(422, "issue"));
  });
});

describe("the worker answers 413 for a body over 1 MiB", () => {
  const tooLarge = "x".repeat(MAX_BODY_BYTES + 1);

  it("with a Content-Length over the limit", async () => {
    expect(await post<Refusal>(withBody(tooLarge))).toEqual(refused(413, "1048576 bytes"));
  });

  it("that is a stream without a length, and stops reading", async () => {
    let sent = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const answer = await send("/webhooks/github", { method: "POST", body: endless });
    expect(answer).toEqual(refused(413, "1048576 bytes"));
    expect(sent).toBeLessThan(4 * MAX_BODY_BYTES);
  });

  it("but not for a body of 1 MiB", async () => {
    const body = `"${"x".repeat(MAX_BODY_BYTES - 2)}"`;
    expect(await post({ ...withBody(body), event: "ping" })).toEqual({
      status: 200,
      body: { ok: true },
    });
  });
});

it.each([
  ["GET", "/webhooks/github", "POST"],
  ["DELETE", "/webhooks/github", "POST"],
  ["POST", "/results", "GET"],
  ["GET", "/approve", "POST"],
  ["GET", "/wake", "POST"],
])("the worker answers 405 for %s %s", async (method, path, right) => {
  expect(await send(path, { method })).toEqual(refused(405, `Use ${right} here, not ${method}`));
});

it("the worker answers 404 for an unknown path", async () => {
  expect(await send("/webhooks", { method: "POST" })).toEqual(refused(404, "/webhooks"));
});

describe("the worker answers 401 for an operator", () => {
  const { agent, id } = givenDelivery();
  const body = JSON.stringify({ agent, delivery: id, approvedBy: "ann" });
  const routes: [string, RequestInit][] = [
    [`/results?${new URLSearchParams({ agent })}`, { method: "GET" }],
    ["/approve", { method: "POST", body }],
    ["/wake", { method: "POST", body }],
  ];

  it.each(routes)("without a token at %s", async (path, init) => {
    expect(await send(path, init)).toEqual(refused(401, "ADMIN_TOKEN"));
  });

  it.each(routes)("with a wrong token at %s", async (path, init) => {
    const headers = { Authorization: `Bearer ${env.WEBHOOK_SECRET}` };
    expect(await send(path, { ...init, headers })).toEqual(refused(401, "ADMIN_TOKEN"));
  });
});

it.each([
  ["agent", "/results", undefined, "Name 1 to 50 agents"],
  ["delivery", "/approve", { agent: "a/b#1", approvedBy: "ann" }, "delivery"],
  ["person", "/approve", { agent: "a/b#1", delivery: "1", approvedBy: "" }, "approvedBy"],
  ["agent to wake", "/wake", {}, "agent"],
])("the worker answers 400 for a request without %s", async (_, path, body, error) => {
  expect(await operate(path, body)).toEqual(refused(400, error));
});

describe("a worker without its secrets", () => {
  const { WEBHOOK_SECRET: _secret, ADMIN_TOKEN: _token, ...bare } = env;

  it.each([
    [503, "POST", "/webhooks/github", "no WEBHOOK_SECRET"],
    [403, "GET", "/results?agent=a/b%231", "no ADMIN_TOKEN"],
  ])("answers %i to %s %s for every request", async (status, method, path, error) => {
    const headers = { "X-Hub-Signature-256": FORGED, Authorization: "Bearer " };
    const body = method === "POST" ? "{}" : null;
    const request = new Request<unknown, IncomingRequestCfProperties>(
      `https://triage.test${path}`,
      { method, headers, body },
    );
    const response = await worker.fetch(request, bare);
    const answer = { status: response.status, body: await response.json() };
    expect(answer).toEqual(refused(status, error));
  });
});
