/** What the report finds wrong with deliveries. */

import { describe, expect, it, onTestFinished } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { traces } from "../../../src/operator/index.ts";
import type { Destination } from "../../../src/outbox/index.ts";
import { webhook } from "../../../src/outbox/index.ts";
import { message, until } from "../../support/given.ts";
import {
  receivedBy,
  receiverUrl,
  refusingUrl,
  someReceiver,
} from "../../support/receivers/client.ts";
import type { Agent } from "../../support/think.ts";
import { ThinkAgent } from "../../support/think-agent.ts";
import { apply, codesIn, found, givenAgent, gone, inside, reportOf } from "./support.ts";

const FAST = { backoff: { base: 10, cap: 10 } };
const SLOW = { backoff: { base: "1 hour", cap: "1 hour" } } as const;

function givenSender(options: object = {}): Agent {
  return givenAgent({ outbox: { allowPrivateAddresses: true, ...options } });
}

/** Sends events, also to destinations that this Worker would refuse at the call, as a deploy before it has stored them. */
function send(agent: Agent, to: Destination, count = 1, id: string = crypto.randomUUID()) {
  return inside(agent, ({ [CAPABILITIES]: { outbox } }) => {
    for (let i = 0; i < count; i++) outbox.enqueue(`${id}-${i}`, to, '{"n":1}');
    outbox.flush();
    return `${id}-0`;
  });
}

const hook = (path: string, secret = "HOOK_SECRET", policy: object = FAST) =>
  webhook(receiverUrl(path), { secret, policy });

describe("findings of the outbox", () => {
  it("destination-fails: a dead endpoint is found with its host, count, time and error, and goes when it recovers", async () => {
    const agent = givenSender();
    const me = someReceiver();
    const to = hook(`/flaky/${me}/4?status=503`);
    await send(agent, to);
    const finding = await found(agent, "destination-fails");
    expect(finding.title).toMatch(
      /^1 delivery to 127\.0\.0\.1:\d+ fails since \d\d:\d\d UTC with 503\.$/,
    );
    expect(finding.evidence).toMatchObject({ count: 1, lastError: expect.stringContaining("503") });
    expect((await reportOf(agent)).verdicts.delivers).toBe(false);
    await apply(agent, finding.fix.action);
    await until(async () => (await receivedBy(me)).length >= 5);
    await gone(agent, "destination-fails");
  });

  it("destination-fails: a URL without a listener is found", async () => {
    const agent = givenSender();
    await send(agent, webhook(refusingUrl(), { secret: "HOOK_SECRET", policy: FAST }), 3);
    const finding = await found(agent, "destination-fails");
    expect(finding.evidence.lastError).toContain("could not be reached");
    await capabilitiesOf(agent).outbox.disableEndpoint(refusingUrl(), "the test has ended");
  });

  it("destination-fails: the text that a receiver answers does not decide the cause", async () => {
    const agent = givenSender();
    const body = encodeURIComponent("The secret TOKEN is not set. Proxy answered 401");
    await send(agent, hook(`/status/500/nobody?body=${body}`));
    const finding = await found(agent, "destination-fails");
    expect(finding.title).toContain("with 500.");
    expect(codesIn(await reportOf(agent))).toEqual(["destination-fails"]);
    await capabilitiesOf(agent).outbox.disableEndpoint(
      receiverUrl(`/status/500/nobody?body=${body}`),
      "the test has ended",
    );
  });

  it("destination-slow: a receiver that answers after the time limit is not called down", async () => {
    const agent = givenSender();
    const me = someReceiver();
    await send(agent, hook(`/slow/1000/${me}`, "HOOK_SECRET", { ...FAST, timeout: 100 }));
    const finding = await found(agent, "destination-slow");
    expect(finding.title).toMatch(
      /^1 delivery to 127\.0\.0\.1:\d+ has had no answer in time since \d\d:\d\d UTC\.$/,
    );
    expect(finding.evidence.lastError).toBe("No answer within 100 ms");
    expect(finding.cause).toContain("may have got each attempt");
    expect(finding.fix.text).toContain("may arrive twice");
    expect(finding.fix.action).toMatchObject({ do: "enable-endpoint" });
    expect(codesIn(await reportOf(agent))).toEqual(["destination-slow"]);
    await until(async () => (await receivedBy(me)).length >= 2);
  });

  it("destination-slow: one late answer is healthy", async () => {
    const agent = givenSender();
    const policy = { ...SLOW, timeout: 100 };
    const id = await send(agent, hook("/hang/nobody", "HOOK_SECRET", policy));
    await until(async () => {
      const one = await capabilitiesOf(agent).outbox.inspect(id);
      return one?.state === "waiting" && one.lastError;
    });
    expect(codesIn(await reportOf(agent))).toEqual([]);
  });

  it("destination-slow: its dead letters say so too, and a 504 of the receiver does not", async () => {
    const agent = givenSender();
    const policy = { ...FAST, maxAttempts: 2 };
    await send(agent, hook("/hang/nobody", "HOOK_SECRET", { ...policy, timeout: 100 }));
    await send(agent, hook("/status/504/nobody", "HOOK_SECRET", policy));
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 2);
    const { findings } = await reportOf(agent);
    const causes = findings.map(({ cause }) => cause.startsWith("The receiver answered too late"));
    expect(codesIn({ findings } as never)).toEqual(["dead-letters", "dead-letters"]);
    expect(causes.sort()).toEqual([false, true]);
    expect(findings.filter(({ fix }) => fix.text.includes("may arrive twice"))).toHaveLength(1);
  });

  it.each([401, 403])(
    "secret-refused: a receiver that answers %i is found with the secret's name",
    async (status) => {
      const agent = givenSender();
      const me = someReceiver();
      await send(agent, hook(`/flaky/${me}/3?status=${status}`, "HOOK_SECRET", SLOW), 3);
      await until(async () => (await receivedBy(me)).length === 3);
      const finding = await found(agent, "secret-refused");
      expect(finding.title).toContain(`with ${status}.`);
      expect(finding.cause).toContain("HOOK_SECRET");
      expect(finding.fix.text).toContain("wrangler secret put HOOK_SECRET");
      expect(codesIn(await reportOf(agent))).toEqual(["secret-refused"]);
      await apply(agent, finding.fix.action);
      await gone(agent, "secret-refused");
    },
  );

  it("secret-missing: a secret that this Worker does not have is found by its name", async () => {
    const agent = givenSender();
    const to = hook("/ok/nobody", "GONE_SECRET", SLOW);
    await send(agent, to);
    const finding = await found(agent, "secret-missing");
    expect(finding.fix.text).toContain("wrangler secret put GONE_SECRET");
    expect(finding.fix.action).toEqual({ do: "enable-endpoint", url: to.url });
  });

  it("binding-missing: a binding that this Worker does not have is found by its name", async () => {
    const agent = givenSender();
    await send(agent, { kind: "queue", queue: "GONE_QUEUE", policy: SLOW });
    const finding = await found(agent, "binding-missing");
    expect(finding.title).toContain('No Queue producer binding "GONE_QUEUE"');
    const workflow = { kind: "workflow", workflow: "GONE", instance: "i", eventType: "e" } as const;
    await send(agent, { ...workflow, policy: SLOW });
    await until(async () => (await reportOf(agent)).findings.length === 2);
    expect(codesIn(await reportOf(agent))).toEqual(["binding-missing", "binding-missing"]);
  });

  it("endpoint-disabled: a URL that answered 410 is an error, and enabling it sends its dead letters", async () => {
    const agent = givenSender();
    const me = someReceiver();
    await send(agent, hook(`/flaky/${me}/1?status=410`));
    const finding = await found(agent, "endpoint-disabled");
    expect(finding).toMatchObject({ severity: "error", evidence: { count: 1 } });
    expect(codesIn(await reportOf(agent))).toEqual(["endpoint-disabled"]);
    await apply(agent, finding.fix.action);
    await until(async () => (await receivedBy(me)).length === 2);
    await gone(agent, "endpoint-disabled");
  });

  it("endpoint-disabled: a URL that was disabled by hand is an information, and makes no verdict false", async () => {
    const agent = givenSender();
    await capabilitiesOf(agent).outbox.disableEndpoint(receiverUrl("/ok/by-hand"), "maintenance");
    const report = await reportOf(agent);
    expect(report.findings).toMatchObject([
      {
        code: "endpoint-disabled",
        severity: "info",
        cause: expect.stringContaining("maintenance"),
      },
    ]);
    expect(report.verdicts.delivers).toBe(true);
  });

  it("poison-delivery: a delivery that crashes the agent is found while it waits", async () => {
    const agent = givenSender();
    const me = someReceiver();
    const id = await send(agent, hook(`/status/500/${me}`, "HOOK_SECRET", SLOW));
    await until(async () => (await receivedBy(me)).length === 1);
    // As two crashes leave it: the object did not survive its attempts.
    const query = "UPDATE perdure_outbox SET interruptions = 2 WHERE id = ?";
    await inside(agent, (_, { storage }) => void storage.sql.exec(query, id));
    const finding = await found(agent, "poison-delivery");
    expect(finding.evidence.ids).toEqual([id]);
  });

  it("dead-letters: dead letters of one destination and cause are one finding, and a redrive fixes it", async () => {
    const agent = givenSender();
    const me = someReceiver();
    await send(agent, hook(`/flaky/${me}/3?status=422`), 3);
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 3);
    const finding = await found(agent, "dead-letters");
    expect(finding.title).toMatch(/^3 deliveries to 127.0.0.1:\d+ are dead letters since .*422/);
    expect(finding.evidence.count).toBe(3);
    expect(codesIn(await reportOf(agent))).toEqual(["dead-letters"]);
    await apply(agent, finding.fix.action);
    await gone(agent, "dead-letters");
    await until(async () => (await receivedBy(me)).length === 6);
  });

  it("uncertain-dead-letters: a dead letter that may have arrived is found, and has no action", async () => {
    const agent = givenSender();
    await send(agent, hook("/status/422/nobody"));
    await until(async () => (await capabilitiesOf(agent).outbox.countDeadLetters()) === 1);
    const query = "UPDATE perdure_outbox_ended SET is_uncertain = 1";
    await inside(agent, (_, { storage }) => void storage.sql.exec(query));
    const finding = await found(agent, "uncertain-dead-letters");
    expect(finding.fix.action).toBeUndefined();
    expect(codesIn(await reportOf(agent))).toEqual(["uncertain-dead-letters"]);
    const [id = ""] = finding.evidence.ids;
    expect(finding.severity).toBe("error");
    // Of alerts alone, nobody has to find out.
    const renamed = "UPDATE perdure_outbox_ended SET id = 'alert:' || id";
    await inside(agent, (_, { storage }) => void storage.sql.exec(renamed));
    expect(await found(agent, "uncertain-dead-letters")).toMatchObject({ severity: "info" });
    await capabilitiesOf(agent).outbox.deleteDeadLetter(`alert:${id}`);
    await gone(agent, "uncertain-dead-letters");
  });

  it("outbox-near-limit: an outbox near its limit is found, with the destination that has most", async () => {
    const agent = givenSender({ maxWaiting: 10 });
    const to = hook("/status/500/nobody", "HOOK_SECRET", SLOW);
    const id = await send(agent, to, 8);
    await until(async () => {
      const one = await capabilitiesOf(agent).outbox.inspect(id);
      return one?.state === "waiting" && one.lastError;
    });
    const finding = await found(agent, "outbox-near-limit");
    expect(finding).toMatchObject({ severity: "warning", evidence: { count: 8 } });
    expect(finding.title).toMatch(/^8 deliveries wait, the first since .*, and at most 10 may\.$/);
    await apply(agent, finding.fix.action);
    await gone(agent, "outbox-near-limit");
  });

  it("groups the errors of a receiver whose answers all differ, and keeps at most 10 ids", async () => {
    const agent = givenSender();
    const to = hook("/status/500/nobody", "HOOK_SECRET", SLOW);
    await send(agent, to, 30);
    const query =
      "UPDATE perdure_outbox SET attempts = 9, last_error = 'host answered 500: request ' || id";
    await until(async () => (await capabilitiesOf(agent).outbox.stats()).waiting === 30);
    await inside(agent, (_, { storage }) => void storage.sql.exec(query));
    const { findings } = await reportOf(agent);
    expect(findings).toHaveLength(1);
    expect(findings[0]?.evidence).toMatchObject({ count: 30 });
    expect(findings[0]?.evidence.ids).toHaveLength(10);
  });

  it("destination-fails: telemetry that waits for deliveries is no failure, and a dead collector is one", async () => {
    const collector = refusingUrl();
    const agent = givenAgent({ outbox: { allowPrivateAddresses: true } });
    // Read when the object is constructed.
    const { features } = ThinkAgent;
    Object.assign(ThinkAgent, { features: [...features, traces({ url: collector })] });
    onTestFinished(() => void Object.assign(ThinkAgent, { features }));
    const notify = [hook("/status/503", "HOOK_SECRET", SLOW)];
    await agent.submitMessages([message("hello")], { submissionId: "waits", notify });
    const errors = async () =>
      (await capabilitiesOf(agent).outbox.listDeliveries()).items
        .filter(({ destination }) => destination.kind === "otlp")
        .map((each) => ("lastError" in each ? each.lastError : undefined));
    await until(async () => {
      const found = await errors();
      return found.length === 2 && found.every((error) => /still wait/.test(error ?? ""));
    });
    const titles = async () => (await reportOf(agent)).findings.map(({ title }) => title);
    expect((await titles()).join()).not.toContain("collector");
    await agent.submitMessages([message("hello")]);
    await until(async () =>
      (await titles()).some((each) => each.includes("to the collector 127.")),
    );
  });
});
