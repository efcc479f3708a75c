/** Alerts of an agent: who is sent what, when, and what that costs. */

import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import { expect, it } from "vitest";
import type { ModuleEvent } from "../../../src/engine/events.ts";
import { slack } from "../../../src/features/replies/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { AlertOptions } from "../../../src/operator/alerts/options.ts";
import { operations } from "../../../src/operator/operations.ts";
import { webhook } from "../../../src/outbox/index.ts";
import { inObject, wakeAll } from "../../support/crash/objects.ts";
import { message, until } from "../../support/given.ts";
import { sleep } from "../../support/ledger.ts";
import { receivedBy, receiverUrl, someReceiver } from "../../support/receivers/client.ts";
import { AlertsAgent } from "./alerts-agent.ts";
import { type AlertsObject, declared, heardBy } from "./alerts-object.ts";

type Stub = DurableObjectStub<AlertsObject>;

function given(alerts?: Partial<AlertOptions> | null): { stub: Stub; name: string } {
  const name = `alerts-${crypto.randomUUID()}`;
  if (alerts !== undefined) declared.set(name, alerts);
  return { stub: env.AlertsObject.getByName(name), name };
}

const inside = <R>(
  stub: Stub,
  work: (object: AlertsObject, ctx: DurableObjectState) => R | Promise<R>,
) => inObject<AlertsObject, R>(stub, work);

const jobsOf = (stub: Stub) =>
  inside(stub, (_, { storage: { sql } }) => {
    const query = "SELECT id FROM cf_agents_jobs WHERE id LIKE '%:wake'";
    return sql.exec(query).toArray().length;
  });

const rowsOf = (stub: Stub) =>
  inside(stub, (_, { storage: { sql } }) => sql.exec("SELECT * FROM perdure_alerts").toArray());

/** Plants a dead letter. */
async function failed(stub: Stub): Promise<string> {
  const id = await inside(stub, (object) => object.fail());
  await until(async () =>
    (await capabilitiesOf(stub).outbox.listDeadLetters()).items.some((one) => one.id === id),
  );
  await until(async () => (await jobsOf(stub)) > 0);
  return id;
}

it("O1: announces a finding once, however often it is found, and its end once", async () => {
  const { stub, name } = given();
  const id = await failed(stub);
  await wakeAll(stub);
  await until(async () => heardBy(name).length === 1);
  await failed(stub);
  await wakeAll(stub);
  await wakeAll(stub);
  expect(heardBy(name)).toMatchObject([
    {
      type: "perdure.alert",
      state: "open",
      agent: "AlertsObject",
      name,
      finding: { code: "dead-letters", severity: "error", evidence: { ids: [id] } },
    },
  ]);
  for (const { id: letter } of (await capabilitiesOf(stub).outbox.listDeadLetters()).items)
    await capabilitiesOf(stub).outbox.deleteDeadLetter(letter);
  await wakeAll(stub);
  await until(async () => heardBy(name).length === 2);
  expect(heardBy(name)[1]).toMatchObject({ state: "over", finding: { code: "dead-letters" } });
});

it("does not announce a finding again that comes back within the quiet period", async () => {
  const { stub, name } = given({ quiet: "1 hour" });
  const letter = await failed(stub);
  await until(async () => {
    await wakeAll(stub);
    return heardBy(name).length === 1;
  });
  await capabilitiesOf(stub).outbox.deleteDeadLetter(letter);
  await until(async () => {
    await wakeAll(stub);
    return heardBy(name).length === 2;
  });
  await failed(stub);
  await wakeAll(stub);
  expect(heardBy(name).map(({ state }) => state)).toEqual(["open", "over"]);
});

it("O2: announces in the next life what an agent that crashed has stored", async () => {
  const { stub, name } = given();
  await failed(stub);
  const again = env.AlertsObject.getByName(name);
  await inside(stub, (_, ctx) => ctx.abort("crash of a test")).catch(() => {});
  await wakeAll(again);
  await until(async () => heardBy(name).length === 1);
});

it("sends webhooks the finding, and people a text with the cause, the fix and the command", async () => {
  const to = someReceiver();
  const hook = given({ to: webhook(receiverUrl(`/status/200/${to}`), { secret: "HOOK_SECRET" }) });
  await failed(hook.stub);
  await wakeAll(hook.stub);
  const [received] = await until(async () => {
    const all = await receivedBy(to);
    return all.length > 0 && all;
  });
  expect(JSON.parse(received?.body ?? "")).toMatchObject({
    type: "perdure.alert",
    state: "open",
    finding: { code: "dead-letters", about: expect.stringContaining("refuse") },
    agent: "AlertsObject",
    name: hook.name,
    at: expect.any(Number),
  });
  const chat = given({ to: slack("C0123456789", { token: "HOOK_SECRET" }) });
  await failed(chat.stub);
  await wakeAll(chat.stub);
  const { text } = (await alertIn(chat.stub)) as { text: string };
  expect(text).toMatch(
    /^error: AlertsObject \S+: 1 delivery to refuse\(\) is a dead letter since .+\n.+\n.+\nnpx perdure report$/,
  );
});

/** The event of the alert's delivery. */
async function alertIn(stub: Stub): Promise<unknown> {
  return until(async () => {
    const { items: deliveries } = await capabilitiesOf(stub).outbox.listDeliveries();
    const { items: deadLetters } = await capabilitiesOf(stub).outbox.listDeadLetters();
    const alert = [...deliveries, ...deadLetters].find(({ id }) => id.startsWith("alert:"));
    return alert && inside(stub, (object) => object.durable.outbox.read(alert.id));
  });
}

it("O2: a receiver of alerts that hangs blocks neither a check nor another delivery", async () => {
  const to = someReceiver();
  const { stub } = given({ to: webhook(receiverUrl(`/hang/${to}`), { secret: "HOOK_SECRET" }) });
  await failed(stub);
  await wakeAll(stub);
  await alertIn(stub);
  await failed(stub);
  await wakeAll(stub);
  expect(await rowsOf(stub)).toHaveLength(1);
});

it("L9: an alert that cannot be delivered is announced once, and no more", async () => {
  const { stub } = given({
    to: webhook(receiverUrl(`/status/410/${someReceiver()}`), { secret: "HOOK_SECRET" }),
  });
  await failed(stub);
  for (let check = 0; check < 6; check++) {
    await wakeAll(stub);
    await until(
      async () =>
        (await capabilitiesOf(stub).outbox.listDeliveries({ state: "waiting" })).items.length === 0,
    );
  }
  const { items: deadLetters } = await capabilitiesOf(stub).outbox.listDeadLetters();
  // The finding, the endpoint that is gone, and nothing about the message of that.
  expect(deadLetters.filter(({ id }) => id.startsWith("alert:")).length).toBeLessThanOrEqual(2);
});

/** What a second turn costs. */
async function costOfTurn({ stub }: { stub: Stub }) {
  const turn = async () => {
    const { submissionId } = await stub.submitMessages([message("hello")]);
    expect(await stub.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
  };
  await turn();
  await inside(stub, ({ meter }) => meter.reset());
  await turn();
  return inside(stub, ({ meter }) => meter.read());
}

it("O5: costs no row, no statement and no alarm for a turn that succeeds", async () => {
  const own = given();
  expect(await costOfTurn(own)).toEqual(await costOfTurn(given(null)));
  expect(await rowsOf(own.stub)).toEqual([]);
});

it("costs a row of its own and the two of a delivery for an alert", async () => {
  const { stub, name } = given();
  await failed(stub);
  await inside(stub, ({ meter }) => meter.reset());
  await wakeAll(stub);
  await until(async () => heardBy(name).length === 1);
  const rows = (table: string) =>
    inside(stub, ({ meter }) => meter.rowsWrittenBy((query) => query.includes(table)));
  expect(await rows("perdure_alerts")).toBe(1);
  expect(await rows("perdure_outbox")).toBe(2);
});

/** How many alarms the agent sets from now on. */
async function alarmsOf(stub: Stub): Promise<() => Promise<number>> {
  await stub.submissionStats();
  await inside(stub, ({ meter }) => meter.reset());
  return () => inside(stub, ({ meter }) => meter.read().setAlarms);
}

it.each<[string, ModuleEvent[]]>([
  ["a failed submission", [{ type: "submission:error" }]],
  ["a retry of a submission", [{ type: "submission:retry" }]],
  ["a second attempt of a delivery", [{ type: "outbox:attempt", id: "a", attempt: 2 }]],
  ["a failing endpoint", [{ type: "outbox:endpoint", state: "failing" }]],
  ["a failed run of a task", [{ type: "scheduler:failed" }]],
  ["an invalid task", [{ type: "scheduler:invalid" }]],
  ["a refused delivery", [{ type: "inbound:refused" }]],
  ["a failed workflow", [{ type: "workflow:errored" }]],
  [
    "work that is open for long",
    [
      { type: "wake", isBusy: true },
      { type: "wake", isBusy: true },
    ],
  ],
])("looks for findings after %s", async (_, events) => {
  const { stub } = given();
  const alarms = await alarmsOf(stub);
  for (const event of events) {
    await inside(stub, (object) => object.tell(event));
    // Work is open for long after a millisecond here.
    await sleep(5);
  }
  await until(alarms);
});

it.each<[string, ModuleEvent]>([
  ["a submission that is accepted", { type: "submission:status" }],
  ["a first attempt of a delivery", { type: "outbox:attempt", id: "a", attempt: 1 }],
  ["a wake without work", { type: "wake", isBusy: false }],
  ["a failed delivery of an alert", { type: "outbox:attempt", id: "alert:1", attempt: 9 }],
])("does not look for findings after %s", async (_, event) => {
  const { stub } = given();
  const alarms = await alarmsOf(stub);
  await inside(stub, async (object, { storage }) => {
    object.tell(event);
    await storage.sync();
  });
  expect(await jobsOf(stub)).toBe(0);
  expect(await alarms()).toBe(0);
});

it("announces a submission that has failed", async () => {
  const { stub, name } = given();
  const script = JSON.stringify({ fail: "the model is gone" });
  const { submissionId } = await stub.submitMessages([message(script)]);
  expect(await stub.waitForSubmission(submissionId)).toMatchObject({ status: "error" });
  await until(async () => {
    await wakeAll(stub);
    return heardBy(name).length > 0;
  });
  expect(heardBy(name)[0]?.finding.code).toBe("failing-submissions");
});

it("a sub-agent sends alerts in its own name, by a wake that its root agent keeps", async () => {
  const name = `alerts-${crypto.randomUUID()}`;
  const root = env.AlertsAgent.getByName(name);
  const sub = await getSubAgentByName(root as never, AlertsAgent, "below");
  await sub.fail();
  await until(async () => {
    await wakeAll(root);
    return heardBy("below").length > 0;
  });
  expect(heardBy("below")).toMatchObject([
    { state: "open", agent: "AlertsAgent", name: "below", finding: { code: "dead-letters" } },
  ]);
});

it("O5: costs nothing without alerts, also when something fails", async () => {
  const { stub } = given(null);
  const id = await inside(stub, (object) => object.fail());
  await until(async () =>
    (await capabilitiesOf(stub).outbox.listDeadLetters()).items.some((one) => one.id === id),
  );
  await until(async () => (await jobsOf(stub)) === 0);
  const tables = "SELECT 1 FROM sqlite_master WHERE name = 'perdure_alerts'";
  expect(await inside(stub, (_, { storage }) => storage.sql.exec(tables).toArray())).toEqual([]);
});

it.each([
  [{}, 'Missing option "to" in alerts'],
  [
    { to: webhook("https://x.example", { secret: "S" }), on: "info" },
    'Invalid alerts.on "info": expected "error" or "warning".',
  ],
  [
    { to: webhook("https://x.example", { secret: "S" }), afer: 1 },
    'Unknown option "afer" in alerts',
  ],
])("refuses the declaration %o", (alerts, problem) => {
  expect(() => operations({ alerts } as never)).toThrow(problem);
});

it.each([
  [slack("C0123456789", { token: "NO_SUCH_TOKEN" }), /token NO_SUCH_TOKEN: .*put NO_SUCH_TOKEN\.$/],
  [webhook("https://x.example", { secret: "NO_SUCH_SECRET" }), /put NO_SUCH_SECRET\.$/],
  [webhook("ftp://x.example", { secret: "HOOK_SECRET" }), /^Invalid alerts\.to\.url "ftp:/],
  [
    { kind: "otlp", url: "https://x.example" },
    /^Invalid alerts\.to\.kind "otlp": expected an installed/,
  ],
  [
    { kind: "workflow", workflow: "W", instance: "instance-1", eventType: "t" },
    /^Invalid alerts\.to\.kind "workflow"/,
  ],
  [7, /^Invalid alerts\.to 7: expected what a function such as webhook\(\)/],
])(
  "a destination that cannot get alerts stops no agent, and is a finding: %o",
  async (to, problem) => {
    const { stub } = given({ to } as never);
    const { submissionId } = await stub.submitMessages([message("hello")]);
    expect(await stub.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
    const { operations: verbs } = capabilitiesOf(stub);
    expect((await verbs.healthReport()).findings).toMatchObject([
      { code: "alerts-not-sent", severity: "error", cause: expect.stringMatching(problem) },
    ]);
  },
);

it("O2: an alert that waits for its secret is not lost", async () => {
  const { stub } = given({ to: slack("C0123456789", { token: "NO_SUCH_TOKEN" }) });
  await failed(stub);
  await wakeAll(stub);
  expect(await alertIn(stub)).toMatchObject({ text: expect.stringContaining("dead letter") });
  const { findings } = await capabilitiesOf(stub).operations.healthReport();
  expect(findings.map(({ code }) => code)).toContain("alerts-not-sent");
});

it("O2: an alert whose outcome is unknown is sent again, and leaves no finding", async () => {
  // Nothing listens where its messages go.
  const { stub } = given({ to: slack("C0123456789", { token: "HOOK_SECRET" }) });
  const id = await failed(stub);
  await wakeAll(stub);
  const { outbox, operations: verbs } = capabilitiesOf(stub);
  const alert = await until(async () => {
    const { items } = await outbox.listDeliveries({ state: "waiting" });
    return items.find((one) => one.id.startsWith("alert:") && "attempt" in one && one.attempt > 1);
  });
  expect(alert).toMatchObject({ lastError: expect.stringContaining("Slack could not be reached") });
  await outbox.deleteDeadLetter(id);
  expect((await outbox.listDeadLetters()).items).toEqual([]);
  expect((await verbs.healthReport()).findings.filter(({ code }) => code.includes("dead"))).toEqual(
    [],
  );
});
