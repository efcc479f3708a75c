/** Storage that an earlier version of Perdure wrote opens, and its open work goes on. This folder has databases of each schema. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Page } from "../../../src/engine/page.ts";
import type { DeployedVersion } from "../../../src/features/deploy/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { resetModelCalls } from "../../../src/testing/index.ts";
import type { OriginParams } from "../../../src/workflow/think-workflow.ts";
import { until } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import { charges, steps } from "../hosts/app.ts";
import { ALERTED, held, ran, VERSION } from "../hosts/stored-object.ts";
import { agents, dumpOf, fileOf, keepers, load } from "./dumps.ts";
import {
  ask,
  delivery,
  end,
  given,
  givenKeeper,
  HOOK,
  lend,
  receivers,
  type Stub,
  WORKFLOWS,
  work,
} from "./work.ts";

beforeEach(() => {
  resetModelCalls();
  for (const counted of [charges, steps, held, ran]) counted.clear();
});
afterEach(() => vi.restoreAllMocks());

const dumpIn = (stub: DurableObjectStub<undefined>) =>
  runInDurableObject(stub, (_, { storage }) => dumpOf(storage));

describe("the schemas of this version have a database", () => {
  it("of an agent", async () => {
    const stub = given();
    await work(stub);
    const { name, text } = fileOf(await dumpIn(stub));
    await end(stub);
    if (!(name in agents)) await expect(text).toMatchFileSnapshot(`./${name}`);
  });

  it("of a keeper of limits", async () => {
    const stub = givenKeeper();
    await lend(stub);
    const { name, text } = fileOf(await dumpIn(stub), "keeper-");
    if (!(name in keepers)) await expect(text).toMatchFileSnapshot(`./${name}`);
  });
});

/** Loads a database, and returns its object, and the ids that its workflows get. */
async function loaded(file: string) {
  const stub = given();
  const ids = new Map(Object.keys(WORKFLOWS).map((id) => [id, crypto.randomUUID()]));
  const named = [...ids].reduce((text, [id, own]) => text.replaceAll(id, own), file);
  await load(stub, named);
  return { stub: env.StoredObject.get(stub.id) as Stub, ids };
}

/** The engine does not have the workflows of the database. These ask again, and get the stored waits. */
async function resumeWorkflows(stub: Stub, ids: ReadonlyMap<string, string>) {
  const { items } = await capabilitiesOf(stub).operations.listWorkflows();
  const started = Object.entries(WORKFLOWS).map(async ([stored, params]) => {
    const id = ids.get(stored) ?? "";
    const tracked = items.find(({ workflowId }) => workflowId === id);
    const workflow =
      tracked?.workflow === "OBJECT_VERSIONED" ? "OBJECT_VERSIONED" : "OBJECT_WORKFLOW";
    const perdure = { workflow, binding: "StoredObject", name: stub.name ?? "" };
    const origin: OriginParams = { perdure, params };
    return [stored, await env[workflow].create({ id, params: origin })] as const;
  });
  return new Map(await Promise.all(started));
}

async function deploymentOf(stub: Stub): Promise<DeployedVersion | undefined> {
  const deployed: unknown = await stub.callKernel("deployments.list");
  return (deployed as Page<DeployedVersion>).items[0];
}

const endOf = (stub: Stub, id: string) =>
  until(async () => {
    const found = await stub.inspectSubmission(id);
    return found?.completedAt !== undefined && found;
  });

/** What the database of this version must have come to. */
async function goesOn(stub: Stub, ids: ReadonlyMap<string, string>, requests: string[]) {
  const of = capabilitiesOf(stub);
  const workflows = await resumeWorkflows(stub, ids);
  expect(await endOf(stub, "pending")).toMatchObject({ status: "completed", output: "later" });
  expect(await endOf(stub, "running")).toMatchObject({ status: "completed", output: "paid" });
  expect(charges.get("stored")).toBeUndefined();
  expect(await endOf(stub, "completed")).toMatchObject({ output: "done" });
  expect(await endOf(stub, "cancelled")).toMatchObject({ status: "aborted" });
  await turnsGoOn(stub);
  expect(await deploymentOf(stub)).toMatchObject({ version: VERSION, isCurrent: true });
  await until(async () => (await of.outbox.stats()).waiting === 0);
  expect(requests.filter((url) => url === HOOK)).toHaveLength(1);
  expect(requests).toContain(ALERTED);
  expect((await of.outbox.listDeadLetters()).items).toMatchObject([{ attempts: 1 }]);
  await arrivalsGoOn(stub, workflows);
  await tasksGoOn(stub);
  const approval = (await of.approvals.list()).items[0];
  const payload = { amount: 1 };
  const decision = await of.approvals.grant(approval?.approvalId ?? "none", { payload });
  expect(decision.outcome).toBe("decided");
  expect(await outputOf(workflows, "stored-approval")).toMatchObject({ approved: true, payload });
  expect(await outputOf(workflows, "stored-prompt")).toBe("prompted");
  expect((await of.operations.listActions()).items).toMatchObject([{ by: "ada" }]);
  return approval;
}

type Instances = ReadonlyMap<string, { status(): Promise<{ status: string; output?: unknown }> }>;

async function outputOf(workflows: Instances, id: string): Promise<unknown> {
  const { output } = await until(async () => {
    const found = await workflows.get(id)?.status();
    if (found?.status === "errored") throw new Error(`${id}: ${JSON.stringify(found)}`);
    return found?.status === "complete" && found;
  });
  return output;
}

async function turnsGoOn(stub: Stub): Promise<void> {
  expect(await endOf(stub, "queued")).toMatchObject({ status: "completed", output: "queued" });
  expect(await endOf(stub, "calling")).toMatchObject({ status: "completed", output: "shipped" });
  const again = steps.get("stored")?.map((step) => step.split(" ")[0]);
  expect(again).not.toContain("reserve");
  expect(again?.at(-1)).toBe("notify");
  const message = { id: "m-pending", role: "user" as const, parts: [] };
  const { accepted, submissionId } = await stub.submitMessages(
    [{ ...message, parts: [{ type: "text", text: '{"text":"later"}' }] }],
    { idempotencyKey: "key of pending" },
  );
  expect({ accepted, submissionId }).toEqual({ accepted: false, submissionId: "pending" });
  expect(await stub.isNew("received")).toBe(false);
}

async function arrivalsGoOn(stub: Stub, workflows: Instances): Promise<void> {
  const { inbound } = capabilitiesOf(stub);
  expect(await stub.callKernel("acceptArrival", delivery())).toMatchObject({
    verdict: "duplicate",
  });
  expect((await inbound.list()).items).toMatchObject([{ duplicates: 1 }]);
  await stub.callKernel("acceptArrival", call(arrival("evt", { source: "stripe" }), "none"));
  expect(await outputOf(workflows, "stored-webhook")).toMatchObject({ id: "evt" });
}

async function tasksGoOn(stub: Stub): Promise<void> {
  const { schedules } = capabilitiesOf(stub);
  const task = await schedules.inspect("ask");
  expect(task).toMatchObject({ state: "paused", paused: { note: "for now" } });
  await schedules.trigger("note", { key: "recorded" });
  expect((await schedules.runs("note")).items).toHaveLength(1);
  await until(() => ran.get(stub.name ?? "")?.some((key) => key.includes("minutely")));
  const { items } = await schedules.runs("slow");
  expect(items).toMatchObject([{ status: "completed" }]);
  expect(ran.get(stub.name ?? "")?.filter((key) => key.includes("slow"))).toHaveLength(1);
}

it.each(Object.entries(agents))("L1 O2 S4 W2: the open work in %s goes on", async (_, file) => {
  const requests = receivers({ [HOOK]: 200, [ALERTED]: 200 });
  const { stub, ids } = await loaded(file);
  const approval = await goesOn(stub, ids, requests);
  expect(file).toContain(approval?.approvalId);
});

it.each(Object.entries(keepers))("the limits in %s are kept", async (_, file) => {
  const keeper = givenKeeper();
  await load(keeper, file);
  const stub = env.LIMIT_KEEPER.get(keeper.id);
  expect(await stub.ask(ask("paused"))).toMatchObject({ outcome: "wait" });
  const { keys } = await stub.list({ limit: 10 });
  expect(keys).toMatchObject([
    { key: "lent", used: { requests: 1 } },
    { key: "paused", reason: "unpaid" },
  ]);
  expect(await stub.ask(ask("lent"))).toMatchObject({ outcome: "lent" });
});
