/** The platform's own spans, as a streaming tail worker gets them from the local runtime. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { expect, it, vi } from "vitest";

const ROOT = path.join(import.meta.dirname, "../../../..");
const WRANGLER = path.join(ROOT, "node_modules/wrangler/bin/wrangler.js");
const SCRIPT = { tool: { name: "charge", input: {} }, text: "done" };

/** What the tail worker keeps of an event. */
type Tailed = {
  readonly parent?: string;
  readonly event: {
    readonly type: string;
    readonly name?: string;
    readonly spanId?: string;
    readonly info?: readonly { readonly name: string; readonly value: unknown }[];
    readonly outcome?: string;
  };
};
/** Keeps what it gets, and returns it when it is asked: a request for each event would be too many. */
const TAIL = `const events = [];
const keep = ({ spanContext, event }) => {
  events.push({ parent: spanContext.spanId, event });
};
export default {
  tailStream(onset) {
    keep(onset);
    return keep;
  },
  // Whole numbers come as BigInt.
  fetch: () =>
    new Response(JSON.stringify(events, (_, it) => (typeof it === "bigint" ? Number(it) : it))),
};`;

/** Bundles a worker, runs its object's `play()`, and returns the spans when one of a name has ended. */
async function playedBy(worker: string, last: string) {
  const folder = mkdtempSync(path.join(tmpdir(), "perdure-spans-"));
  const config = path.join(import.meta.dirname, "wrangler.jsonc");
  const main = path.join(import.meta.dirname, `${worker}.ts`);
  const args = ["deploy", main, "--dry-run", "--outdir", folder, "--config", config];
  execFileSync(process.execPath, [WRANGLER, ...args]);
  const script = readFileSync(path.join(folder, `${worker}.js`), "utf8");
  rmSync(folder, { recursive: true });
  await using miniflare = runtimeOf(script);
  const body = JSON.stringify(SCRIPT);
  const response = await miniflare.dispatchFetch("http://test/", { method: "POST", body });
  const submissionId = await response.text();
  expect(response.status, submissionId).toBe(200);
  const tail = await miniflare.getWorker("tail");
  let tailed: Tailed[] = [];
  // The tail comes behind.
  const isThere = async () => {
    tailed = (await (await tail.fetch("http://test/")).json()) as Tailed[];
    return spansIn(tailed).some(({ name, isClosed }) => name === last && isClosed);
  };
  await vi.waitUntil(isThere, { timeout: 60_000 });
  const spans = spansIn(tailed);
  return {
    submissionId,
    span: (called: string) => spans.find(({ name }) => name === called),
  };
}

/** The worker, and one that gets its tail. */
function runtimeOf(script: string) {
  const common = {
    modules: true as const,
    compatibilityDate: "2026-11-01",
    compatibilityFlags: ["nodejs_compat"],
  };
  const durableObjects = { OBJECT: { className: "TracedObject", useSQLite: true } };
  const options = convertV4MiniflareOptions({
    workers: [
      { ...common, name: "traced", script, durableObjects, tails: ["tail"] },
      { ...common, name: "tail", script: TAIL },
    ],
  });
  const [traced] = options.workers as unknown as [
    { config: { tailConsumers: { streaming: boolean }[] } },
  ];
  for (const consumer of traced.config.tailConsumers) consumer.streaming = true;
  const miniflare = new Miniflare(options);
  return Object.assign(miniflare, { [Symbol.asyncDispose]: () => miniflare.dispose() });
}

/** Spans with their attributes, and the names of their parents. */
function spansIn(tailed: readonly Tailed[]) {
  const open = tailed.filter(({ event }) => event.type === "spanOpen");
  return open.map(({ parent: above, event: { name, spanId } }) => {
    const own = tailed.filter(({ parent }) => parent === spanId).map(({ event }) => event);
    const attributes = own
      .flatMap(({ type, info }) => (type === "attributes" ? (info ?? []) : []))
      .map((one) => [one.name, one.value]);
    return {
      name,
      above: open.find(({ event }) => event.spanId === above)?.event.name,
      isClosed: own.some(({ type }) => type === "spanClose"),
      attributes: Object.fromEntries(attributes) as Record<string, unknown>,
    };
  });
}

it("a side turn has spans of the platform, with the AI SDK's spans inside, and so have its delivery and a scheduled run", async () => {
  const { submissionId, span } = await playedBy("worker", "perdure.schedule");
  const ids = { "perdure.submission.id": submissionId };
  expect(span("perdure.submit")).toMatchObject({
    isClosed: true,
    attributes: { ...ids, "perdure.thread": "isolated", "perdure.submission.accepted": true },
  });
  expect(span("perdure.turn")).toMatchObject({
    isClosed: true,
    attributes: {
      ...ids,
      "perdure.attempt": 1,
      "perdure.outcome": "completed",
      "gen_ai.operation.name": "invoke_agent",
    },
  });
  expect(span("invoke_agent Traced")).toMatchObject({
    above: "perdure.turn",
    isClosed: true,
    attributes: {
      "gen_ai.agent.name": "Traced",
      "gen_ai.agent.id": "one",
      "gen_ai.conversation.id": "isolated",
      "cloudflare.agents.turn.request_id": submissionId,
    },
  });
  expect(span("chat scripted")).toMatchObject({
    above: "invoke_agent Traced",
    isClosed: true,
    attributes: { "gen_ai.request.model": "scripted", "gen_ai.usage.input_tokens": 10 },
  });
  expect(span("execute_tool charge")).toMatchObject({ above: "invoke_agent Traced" });
  expect(span("perdure.deliver")?.attributes).toMatchObject({
    ...ids,
    "perdure.destination.kind": "method",
  });
  expect(span("perdure.schedule")?.attributes).toMatchObject({ "perdure.task": "nightly" });
});

it("a turn of Think's own conversation has Think's spans inside of its own", async () => {
  const { submissionId, span } = await playedBy("think-worker", "perdure.turn");
  expect(span("perdure.turn")?.attributes).toMatchObject({
    "perdure.submission.id": submissionId,
    "perdure.thread": "main",
    "perdure.outcome": "completed",
  });
  expect(span("chat_turn")?.above).toBe("perdure.turn");
  expect(span("invoke_agent TracedObject")?.above).toBe("chat_turn");
  expect(span("chat scripted")?.above).toBe("invoke_agent TracedObject");
  expect(span("execute_tool charge")?.above).toBe("invoke_agent TracedObject");
});
