/** Approvals by link, and the URLs of `step.webhook()`, from the request to the workflow's result. */

import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import type { LinkSettings } from "../../../src/features/inbound/index.ts";
import { links, webhooks } from "../../../src/features/inbound/webhooks/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { WebhookTimeoutError } from "../../../src/workflow/index.ts";
import { refusal, until } from "../../support/given.ts";
import { linkSettings } from "../../support/think-agent.ts";
import { givenWorkflow } from "../../support/workflows/approvals.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

const settings = { url: "https://app.example/hooks/links", secret: "HOOK_SECRET" };
const hooks = webhooks(links({ secret: "HOOK_SECRET" }));
const ctx = { waitUntil: () => {} };

beforeEach(() => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

async function send(url: string, method: string, body?: string) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  const request = new Request(url, { method, headers, ...(body !== undefined && { body }) });
  const response = (await hooks(request, env, ctx)) as Response;
  return { status: response.status, ...((await response.json()) as object) };
}

/** An approval of a workflow whose agent signs links. */
async function givenApproval(links: LinkSettings = settings, ask: object = {}) {
  const workflow = await givenWorkflow([{ name: "pay", title: "Pay 40", ...ask }]);
  const { approvalId } = await workflow.pending();
  const { agent } = workflow;
  // The options are read when the object starts.
  linkSettings.set(agent.name ?? "", links);
  await agent.die().catch(() => {});
  return { workflow, approvalId, agent: () => workflow.agent };
}

describe("an approval by link", () => {
  it("W3: is asked for by GET, decided by POST, and decided once", async () => {
    const { workflow, approvalId, agent } = await givenApproval();
    const grant = await capabilitiesOf(agent()).approvals.link(approvalId, "grant", {
      by: "mail:ann",
    });
    const reject = await capabilitiesOf(agent()).approvals.link(approvalId, "reject");
    for (const method of ["GET", "HEAD", "GET"]) {
      const request = new Request(grant, { method });
      expect((await hooks(request, env, ctx))?.status).toBe(200);
    }
    expect(await capabilitiesOf(agent()).approvals.inspect(approvalId)).toMatchObject({
      status: "pending",
    });
    expect(await send(grant, "GET")).toMatchObject({ status: "pending", title: "Pay 40" });
    expect(await send(grant, "POST")).toMatchObject({ outcome: "decided", by: "mail:ann" });
    expect(await send(grant, "POST")).toMatchObject({ outcome: "already_decided" });
    const headers = { accept: "text/html" };
    const late = await hooks(new Request(reject, { method: "POST", headers }), env, ctx);
    expect(late?.status).toBe(409);
    expect(await late?.text()).toContain("Already approved by mail:ann");
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: true, by: "mail:ann" }]);
  });

  it("W4: carries a payload, which is checked when the link is made and when it is used", async () => {
    const { workflow, approvalId, agent } = await givenApproval(settings, { schema: "refund" });
    for (const options of [{}, { payload: { amount: 1_000 } }]) {
      const error = await refusal(
        capabilitiesOf(agent()).approvals.link(approvalId, "grant", options),
      );
      expect(error).toMatchObject({ name: "InvalidApprovalError", field: "payload" });
    }
    const link = await capabilitiesOf(agent()).approvals.link(approvalId, "grant", {
      payload: { amount: 7 },
    });
    expect(await send(link, "POST")).toMatchObject({ outcome: "decided", by: "link" });
    const { outcomes } = await workflow.output();
    expect(outcomes).toMatchObject([{ approved: true, payload: { amount: 7 }, by: "link" }]);
  });

  it.each<[string, string, object | undefined, string, RegExp]>([
    ["an unknown approval", "nobody", undefined, "approvalId", /Invalid approvalId "nobody"/],
    ["a payload for a rejection", "", { payload: 1 }, "payload", /expected no payload/],
    ["an unknown option", "", { expires: 1 }, "expires", /Unknown option "expires"/],
    ["a link for two years", "", { expiresIn: "2 years" }, "expiresIn", /at most "365 days"/],
    ["a long name", "", { by: "x".repeat(201) }, "by", /1 to 200 characters/],
  ])("%s is refused at the call", async (_, id, options, field, message) => {
    const { approvalId, agent } = await givenApproval();
    const error = await refusal(
      capabilitiesOf(agent()).approvals.link(id || approvalId, "reject", options as never),
    );
    expect(error).toMatchObject({ name: "InvalidApprovalError", field });
    expect(error.message).toMatch(message);
  });

  it("needs a secret in env", async () => {
    const gone = await givenApproval({ ...settings, secret: "GONE" });
    const missing = await refusal(
      capabilitiesOf(gone.agent()).approvals.link(gone.approvalId, "grant"),
    );
    expect(missing.message).toMatch(/wrangler secret put GONE/);
  });
});

describe("the URL of a step", () => {
  const body = { amount: 7 };

  async function given(run: WorkflowBody, isSub = false, links = settings) {
    const workflow = await givenScriptedWorkflow(run, { isSub });
    const name = workflow.agent.name ?? "";
    linkSettings.set(isSub ? `child-of-${name}` : name, links);
    await workflow.start();
    return workflow;
  }

  it("W3: is handed out, and the first request to it ends the wait", async () => {
    const urls: string[] = [];
    const schema = z.object({ amount: z.number().transform((amount) => amount / 100) });
    await using workflow = await given(async (step) => {
      const hook = await step.webhook("callback", { url: true, schema });
      await step.do("hand out", async () => void urls.push(hook.url));
      return hook.wait();
    });
    const url = await until(() => urls[0]);
    expect(await send(url, "GET")).toMatchObject({ status: 405 });
    expect(await send(url, "POST", '{"amount":"7"}')).toMatchObject({ status: 400 });
    expect(await send(url, "POST", JSON.stringify(body))).toMatchObject({ verdict: "accepted" });
    expect(await send(url, "POST", JSON.stringify(body))).toMatchObject({ verdict: "duplicate" });
    expect(await send(url, "POST", '{"amount":8}')).toMatchObject({ status: 410 });
    expect(await workflow.output()).toEqual({
      source: "url",
      id: expect.stringMatching(/^[\da-f]{64}$/),
      type: "",
      body: { amount: 0.07 },
      receivedAt: expect.any(Number),
    });
    expect(await send(url, "POST", JSON.stringify(body))).toMatchObject({ verdict: "duplicate" });
  });

  it("leads to a sub-agent, too", async () => {
    const urls: string[] = [];
    await using workflow = await given(async (step) => {
      const hook = await step.webhook("callback", { url: true });
      urls.push(hook.url);
      return (await hook.wait()).body;
    }, true);
    const url = await until(() => urls[0]);
    expect(await send(url, "POST", "{}")).toMatchObject({ verdict: "accepted" });
    expect(await workflow.output()).toEqual({});
  });

  it("W4: stays the same when the step refuses a body, and takes another one", async () => {
    const urls: string[] = [];
    const schema = z.object({ n: z.number().refine((n) => n !== 13) });
    await using workflow = await given(async (step) => {
      const hook = await step.webhook("callback", { url: true, schema });
      urls.push(hook.url);
      return (await hook.wait()).body;
    });
    const url = await until(() => urls[0]);
    expect(await send(url, "POST", '{"n":13}')).toMatchObject({ verdict: "accepted" });
    await until(async () => {
      const { verdict } = (await send(url, "POST", '{"n":7}')) as { verdict?: string };
      return verdict === "accepted";
    });
    expect(await workflow.output()).toEqual({ n: 7 });
    expect(new Set(urls).size).toBe(1);
  });

  it("W2: is closed when the time is over", async () => {
    const urls: string[] = [];
    await using workflow = await given(async (step) => {
      const hook = await step.webhook("callback", { url: true, timeout: 700 });
      urls.push(hook.url);
      return hook.wait().catch((error: WebhookTimeoutError) => error.name);
    });
    const url = await until(() => urls[0]);
    expect(await workflow.output()).toBe("WebhookTimeoutError");
    expect(await send(url, "POST", "{}")).toMatchObject({ status: 410 });
  });

  it("W5: is closed when the workflow is terminated", async () => {
    const urls: string[] = [];
    await using workflow = await given(async (step) => {
      const hook = await step.webhook("callback", { url: true });
      urls.push(hook.url);
      return hook.wait();
    });
    const url = await until(() => urls[0]);
    await (await workflow.handle()).terminate();
    expect(await send(url, "POST", "{}")).toMatchObject({ status: 410 });
    expect(await workflow.agent.webhookStatuses()).toEqual(["cancelled"]);
  });

  it("needs its secret in env, says so at the call, and stores nothing without it", async () => {
    await using workflow = await given(
      (step) =>
        step.webhook("callback", { url: true }).catch((error: Error) => ({
          name: error.name,
          message: error.message,
        })),
      false,
      { ...settings, secret: "GONE" },
    );
    expect(await workflow.output()).toEqual({
      name: "InvalidOptionError",
      message: expect.stringContaining("wrangler secret put GONE"),
    });
    expect(await workflow.agent.webhookStatuses()).toEqual([]);
  });
});

const TO = { kind: "method", method: "onEnd" } as never;
const NOTIFYING: [string, WorkflowBody, RegExp][] = [
  [
    "a schema without the payload of its link",
    (step) => step.approval("pay", { schema: z.object({ amount: z.number() }), notify: TO }),
    /a link that approves needs the payload of the schema\. Pass link: \{ payload \}, or link: false/,
  ],
  [
    "a payload that the schema refuses",
    (step) =>
      step.approval("pay", {
        schema: z.object({ amount: z.number() }),
        notify: TO,
        link: { payload: { amount: "all" } },
      }),
    /amount/,
  ],
  ["a link without notify", (step) => step.approval("pay", { link: {} }), /there is no notify/],
  [
    "a destination that there is not",
    (step) => step.approval("pay", { notify: { kind: "pigeon" } as never }),
    /notify\[0\].*pigeon/,
  ],
  [
    "eleven destinations",
    (step) => step.approval("pay", { notify: Array.from({ length: 11 }, () => TO) }),
    /at most 10 destinations/,
  ],
];

it.each(NOTIFYING)("a request refuses %s, and nothing is stored", async (_, body, message) => {
  await using given = await givenScriptedWorkflow(body);
  linkSettings.set(given.agent.name ?? "", settings);
  await given.start();
  expect((await given.error()).message).toMatch(message);
  expect((await capabilitiesOf(given.agent).approvals.list()).items).toEqual([]);
});
