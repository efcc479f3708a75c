/** Traces and metrics that reach a collector, also after a SIGKILL, read by the OpenTelemetry SDK. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type Attributes, type HrTime, TraceFlags } from "@opentelemetry/api";
import { JsonTraceSerializer, ProtobufTraceSerializer } from "@opentelemetry/otlp-transformer";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { traceOf } from "../../../src/core/trace-context.ts";
import { metricsBody, traceBody } from "../../../src/operator/otlp/encode.ts";
import type { Trace, TraceSpan } from "../../../src/operator/protocol.ts";
import { MAIN, Operated } from "../../support/operated.ts";
import { HANG_MS } from "../../support/sizes.ts";

// biome-ignore lint/suspicious/noExplicitAny: it is what arrives, to be read by the SDK.
type Body = any;
type Request = {
  readonly path: string;
  readonly headers: Record<string, unknown>;
  readonly body: Body;
};

const VALUE_OF = (value: Body): string | number | boolean =>
  value.stringValue ?? value.boolValue ?? value.doubleValue ?? Number(value.intValue);
const attributesOf = (list: Body[]): Attributes =>
  Object.fromEntries(list.map(({ key, value }) => [key, VALUE_OF(value)]));
const hrTime = (nanoseconds: string): HrTime => [
  Number(BigInt(nanoseconds) / 1_000_000_000n),
  Number(BigInt(nanoseconds) % 1_000_000_000n),
];

/** The spans of a request, as the SDK has them. */
function spansOf(body: Body): ReadableSpan[] {
  const [{ resource, scopeSpans }] = body.resourceSpans;
  return scopeSpans.flatMap(({ scope, spans }: Body) =>
    spans.map((span: Body): ReadableSpan => {
      const context = (spanId: string, traceId = span.traceId) => ({
        traceId,
        spanId,
        traceFlags: TraceFlags.SAMPLED,
      });
      const [startTime, endTime] = [hrTime(span.startTimeUnixNano), hrTime(span.endTimeUnixNano)];
      return {
        name: span.name,
        kind: span.kind - 1,
        spanContext: () => context(span.spanId),
        ...(span.parentSpanId && { parentSpanContext: context(span.parentSpanId) }),
        startTime,
        endTime,
        status: span.status,
        attributes: attributesOf(span.attributes),
        links: (span.links ?? []).map((link: Body) => ({
          context: context(link.spanId, link.traceId),
        })),
        events: [],
        duration: [0, 0],
        ended: true,
        resource: { attributes: attributesOf(resource.attributes) } as never,
        instrumentationScope: scope,
        droppedAttributesCount: 0,
        droppedEventsCount: 0,
        droppedLinksCount: 0,
      } as ReadableSpan;
    }),
  );
}

/** What the SDK sends for the same spans. */
function encodedBySdk(spans: ReadableSpan[]): Body {
  return JSON.parse(new TextDecoder().decode(JsonTraceSerializer.serializeRequest(spans)));
}

/** Without the fields that say nothing, and in one order. */
function plain(body: Body) {
  const spans: Body[] = body.resourceSpans.flatMap((each: Body) =>
    each.scopeSpans.flatMap((one: Body) => one.spans),
  );
  return spans
    .map(
      ({
        traceId,
        spanId,
        parentSpanId,
        name,
        kind,
        startTimeUnixNano,
        endTimeUnixNano,
        attributes,
        status,
        links = [],
      }) => ({
        ...{
          traceId,
          spanId,
          parentSpanId,
          name,
          kind,
          startTimeUnixNano,
          endTimeUnixNano,
          status,
        },
        attributes: attributesOf(attributes),
        links: links.map(({ traceId, spanId }: Body) => ({ traceId, spanId })),
      }),
    )
    .sort((a, b) => (a.spanId < b.spanId ? -1 : 1));
}

describe("encoding", () => {
  const hex = (length: number) =>
    fc.string({
      unit: fc.constantFrom(..."0123456789abcdef"),
      minLength: length,
      maxLength: length,
    });
  const value = fc.oneof(
    fc.string(),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
  );
  const at = fc.integer({ min: 0, max: 4_000_000_000_000 });
  const span = fc
    .record(
      {
        spanId: hex(16),
        parentSpanId: hex(16),
        name: fc.string({ minLength: 1 }),
        kind: fc.constantFrom<TraceSpan["kind"]>(
          "submission",
          "model",
          "tool",
          "delivery",
          "wait",
          "attempt",
        ),
        startedAt: at,
        took: fc.integer({ min: 0, max: 1e9 }),
        status: fc.constantFrom<TraceSpan["status"]>("ok", "error", "unset"),
        error: fc.string(),
        attributes: fc.dictionary(fc.string({ minLength: 1 }), value),
        links: fc.array(fc.record({ traceId: hex(32), spanId: hex(16) }), { maxLength: 2 }),
      },
      { requiredKeys: ["spanId", "name", "kind", "startedAt", "took", "status", "attributes"] },
    )
    .map(({ took, ...each }) => ({ ...each, endedAt: each.startedAt + took }) as TraceSpan);
  const trace = fc.record({
    traceId: hex(32),
    spans: fc.array(span, { minLength: 1, maxLength: 5 }),
  });

  it("any trace is encoded as the OpenTelemetry SDK encodes the same spans", () => {
    fc.assert(
      fc.property(trace, (given) => {
        const body: Body = JSON.parse(
          JSON.stringify(traceBody(given as Trace, { "service.name": "Shop" }, 0)),
        );
        const spans = spansOf(body);
        expect(plain(body)).toEqual(plain(encodedBySdk(spans)));
        expect(ProtobufTraceSerializer.serializeRequest(spans)?.byteLength).toBeGreaterThan(0);
      }),
    );
  });

  it("each value of any trace is in one bucket of its histogram, and in its sum", () => {
    fc.assert(
      fc.property(trace, (given) => {
        const body: Body = metricsBody(given as Trace, {}, 0);
        const { metrics } = body.resourceMetrics[0].scopeMetrics[0];
        const calls = given.spans.filter(({ kind }) => kind === "model").length;
        for (const { name, histogram } of metrics) {
          expect(histogram.aggregationTemporality).toBe(1);
          let count = 0;
          for (const point of histogram.dataPoints) {
            expect(point.bucketCounts).toHaveLength(point.explicitBounds.length + 1);
            const inBuckets = point.bucketCounts
              .map(Number)
              .reduce((a: number, b: number) => a + b, 0);
            expect(inBuckets).toBe(Number(point.count));
            count += inBuckets;
          }
          if (name === "gen_ai.client.operation.duration") expect(count).toBe(calls);
        }
      }),
    );
  });
});

describe("a collector", () => {
  const requests: Request[] = [];
  let status = 200;
  let server: Server;
  let app: Operated;
  let hooks = 200;
  /** Requests to `/hook`. */
  let hooked = 0;
  const signal = AbortSignal.timeout(10 * HANG_MS);

  beforeAll(async () => {
    server = createServer(async (request, response) => {
      const body = JSON.parse(await text(request));
      const path = request.url ?? "";
      if (path === "/hook") {
        hooked++;
        return response.writeHead(hooks).end();
      }
      requests.push({ path, headers: request.headers, body });
      response.writeHead(status, { "content-type": "application/json" }).end("{}");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    app = new Operated({
      OTLP_URL: `http://127.0.0.1:${port}/otlp/`,
      OTLP_HEADERS: "x-key=a%20b, x-tenant=shop",
    });
    app.editConfig((config) => ({ ...config, vars: { MODEL_HANGS: "1" } }));
    await app.start(signal);
  });
  afterAll(() => {
    app?.destroy();
    server?.close();
  });

  const submit = async (script: object, options: object = {}) => {
    const response = await fetch(`${app.url}/ask`, {
      method: "POST",
      body: JSON.stringify({ messages: [JSON.stringify(script)], options }),
    });
    expect(response.status).toBe(200);
    return ((await response.json()) as { submissionId: string }).submissionId;
  };
  /** Waits until it passes. */
  const eventually = <T>(look: () => T | Promise<T>) =>
    vi.waitFor(look, { timeout: HANG_MS, interval: 100 });
  /** What of this kind the outbox still has to send. */
  const waiting = async (kind: "otlp") =>
    (await app.client().list(MAIN, "deliveries", { state: "waiting", kind })).items;
  const of = (submissionId: string, path: string) =>
    requests.filter(
      (each) => each.path === path && JSON.stringify(each.body).includes(submissionId),
    );
  const tracesOf = (id: string) => of(id, "/otlp/v1/traces");
  const arrived = (id: string) => eventually(() => expect(tracesOf(id)).not.toEqual([]));

  it("receives the whole tree of a prompt whose runtime was killed, with real times", async () => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
    const startedAt = Date.now();
    const id = await submit(
      { text: "it is on its way" },
      {
        submissionId: "killed",
        thread: "orders",
        notify: { kind: "webhook", url, secrets: ["HOOK_SECRET"] },
      },
    );
    await eventually(async () =>
      expect(await app.client().inspect(MAIN, "submissions", id)).toMatchObject({
        status: "running",
        attempts: 1,
      }),
    );
    await app.kill();
    app.editConfig((config) => ({ ...config, vars: undefined }));
    await app.start(signal);
    // A request wakes the agent.
    await app.client().agentReport(MAIN);
    await arrived(id);
    const endedAt = Date.now();
    const [{ body, headers }] = tracesOf(id) as [Request];
    expect(headers).toMatchObject({
      "x-key": "a b",
      "x-tenant": "shop",
      "content-type": "application/json",
    });
    const spans = spansOf(body);
    expect(plain(body)).toEqual(plain(encodedBySdk(spans)));

    const [root] = spans.filter((span) => !span.parentSpanContext) as [ReadableSpan];
    expect(root.name).toBe("perdure.submission");
    const ids = new Map(spans.map((span) => [span.spanContext().spanId, span]));
    const ms = ([seconds, nano]: HrTime) => seconds * 1_000 + nano / 1e6;
    for (const span of spans) {
      expect(span.spanContext().traceId).toBe(root.spanContext().traceId);
      expect(ms(span.startTime)).toBeGreaterThanOrEqual(startedAt - 1);
      expect(ms(span.endTime)).toBeLessThanOrEqual(endedAt + 1);
      expect(ms(span.startTime)).toBeLessThanOrEqual(ms(span.endTime));
      const parent = ids.get(span.parentSpanContext?.spanId ?? "");
      if (span !== root) expect(parent).toBeDefined();
      if (parent) expect(ms(span.startTime)).toBeGreaterThanOrEqual(ms(parent.startTime) - 1);
    }
    const attempts = spans.filter(({ name }) => name === "perdure.turn");
    expect(attempts).toHaveLength(2);
    const chats = spans.filter(({ name }) => name.startsWith("chat"));
    expect(chats.length).toBeGreaterThanOrEqual(1);
    expect(chats.at(-1)?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": "scripted",
    });
    expect(spans.filter(({ name }) => name === "perdure.deliver")).toHaveLength(1);

    await eventually(() => expect(metricsAfter(0)).toBeGreaterThan(0));
  });

  const metricsAfter = (at: number) =>
    requests.slice(at).filter(({ path }) => path === "/otlp/v1/metrics").length;

  it("receives the metrics of the model's calls and of the submission", async () => {
    const before = requests.length;
    const id = await submit({ text: "done" }, { submissionId: "measured" });
    await arrived(id);
    await eventually(() => expect(metricsAfter(before)).toBeGreaterThan(0));
    const { body } = requests
      .slice(before)
      .find(({ path }) => path === "/otlp/v1/metrics") as Request;
    const [{ resource, scopeMetrics }] = body.resourceMetrics;
    expect(attributesOf(resource.attributes)).toEqual({
      "service.name": "ShopAgent",
      "service.instance.id": "main",
    });
    const { metrics } = scopeMetrics[0];
    expect(metrics.map(({ name }: Body) => name)).toEqual([
      ...["gen_ai.client.operation.duration", "gen_ai.client.token.usage"],
      ...["perdure.submission.duration", "perdure.submission.wait"],
    ]);
    const tokens = metrics[1].histogram.dataPoints.map((point: Body) => [
      attributesOf(point.attributes)["gen_ai.token.type"],
      point.sum,
    ]);
    expect(tokens).toEqual([
      ["input", 10],
      ["output", 5],
    ]);
  });

  it("receives a workflow once, when it has ended, with the steps that no prompt has", async () => {
    const id = (await (await fetch(`${app.url}/order`)).json()) as string;
    const { traceId } = traceOf(`workflow:ORDER_WORKFLOW:${id}`);
    const spansOfTrace = () =>
      requests
        .filter(({ path }) => path === "/otlp/v1/traces")
        .flatMap(({ body }) => spansOf(body))
        .filter(({ spanContext }) => spanContext().traceId === traceId);
    const rootsOf = (spans: ReadableSpan[]) =>
      spans.filter(({ parentSpanContext }) => !parentSpanContext);
    const approvalId = await eventually(async () => {
      const { items } = await app.client().list(MAIN, "approvals", { workflowId: id });
      expect(items).toHaveLength(1);
      return items[0]?.approvalId ?? "";
    });
    // The prompt is sent while the workflow waits.
    await eventually(() => expect(spansOfTrace()).not.toEqual([]));
    expect(rootsOf(spansOfTrace())).toEqual([]);
    await app.client().act(MAIN, { reason: "paid", action: { do: "approve", approvalId } });
    await eventually(() => expect(rootsOf(spansOfTrace())).not.toEqual([]));
    // Nothing of it is left to be sent a second time.
    await eventually(async () => expect(await waiting("otlp")).toEqual([]));

    const spans = spansOfTrace();
    const roots = rootsOf(spans);
    expect(roots).toMatchObject([
      {
        name: "perdure.workflow ORDER_WORKFLOW",
        status: { code: 1 },
        attributes: { "perdure.workflow.status": "complete" },
      },
    ]);
    expect(roots[0]?.attributes["perdure.span.open"]).toBeUndefined();
    const steps = spans.filter(({ name }) => name.startsWith("perdure.step"));
    const named = (list: ReadableSpan[]) =>
      list.map(({ name, attributes }) => [name.slice(13), attributes["perdure.step.kind"]]).sort();
    expect(named(steps)).toEqual([
      ["check", "prompt"],
      ["reserve", "do"],
      ["rest", "sleep"],
      ["send", "do"],
      ["ship", "approval"],
    ]);
    const rootId = roots[0]?.spanContext().spanId;
    expect(steps.every(({ parentSpanContext }) => parentSpanContext?.spanId === rootId)).toBe(true);
    const approval = steps.find(({ name }) => name.endsWith("ship"));
    expect(approval?.attributes).toMatchObject({
      "perdure.approval.status": "approved",
      "perdure.approval.by": expect.any(String),
    });
    expect(new Set(spans.map(({ spanContext }) => spanContext().spanId)).size).toBe(spans.length);
  });

  it("waits for a delivery that still fails, and has it in the trace", async () => {
    hooks = 500;
    const hookedBefore = hooked;
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
    const policy = { maxAttempts: 10_000, backoff: { base: 100, cap: 500 } };
    const notify = { kind: "webhook", url, secrets: ["HOOK_SECRET"], policy };
    const id = await submit({ text: "done" }, { submissionId: "late-hook", notify });
    // The telemetry has been looked at, and waits for a delivery that has failed.
    await eventually(async () => {
      const lastError = expect.stringContaining("still wait");
      expect(await waiting("otlp")).toContainEqual(expect.objectContaining({ lastError }));
      expect(hooked).toBeGreaterThan(hookedBefore + 1);
    });
    expect(tracesOf(id)).toEqual([]);
    hooks = 200;
    await arrived(id);
    const [{ body }] = tracesOf(id) as [Request];
    const delivery = spansOf(body).find(({ name }) => name === "perdure.deliver");
    expect(delivery?.attributes["perdure.span.open"]).toBeUndefined();
  });

  it("that refuses everything leaves no dead letter, and is a problem of its own", async () => {
    // What earlier submissions still send would be refused as well.
    await eventually(async () => expect(await waiting("otlp")).toEqual([]));
    status = 400;
    const id = await submit({ text: "done" }, { submissionId: "refused" });
    await arrived(id);
    await eventually(async () => {
      const refused = { state: "discarded", kind: "otlp" } as const;
      const { items } = await app.client().list(MAIN, "deliveries", refused);
      expect(items).toHaveLength(2);
    });
    const letters = await app.client().list(MAIN, "dead-letters");
    expect(letters.items).toEqual([]);
    status = 200;
  });
});
