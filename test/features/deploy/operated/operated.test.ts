/** Deployments for operators on a real object: versions across deploys, the findings of the report, and the migration of a run. */

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { type Deployments, deployments } from "../../../../src/features/deploy/index.ts";
import type { Durable } from "../../../../src/hosts/object/index.ts";
import { CAPABILITIES } from "../../../../src/hosts/verbs.ts";
import { operations } from "../../../../src/operator/index.ts";
import { ask } from "../../../../src/testing/index.ts";
import { message, until } from "../../../support/given.ts";
import { limitedApps } from "../../../support/objects/limited-object.ts";
import { accessTo } from "../../../support/objects/objects.ts";

const { inside, crash, wake } = accessTo(() => env.LimitedObject);

type Agent = { readonly name: string };

/** The next start of the object is that of another version. */
async function deploy(agent: Agent, version: string): Promise<void> {
  limitedApps.set(agent.name, { features: [operations(), deployments({ version })] });
  await crash(agent);
}

function givenAgent(version = "1"): Agent {
  const agent = { name: `deployed-${crypto.randomUUID()}` };
  limitedApps.set(agent.name, { features: [operations(), deployments({ version })] });
  return agent;
}

const LATER = "2099-01-01T00:00:00Z";

const submit = (agent: Agent) =>
  inside(agent, async ({ durable }) => {
    const { submissionId } = await durable.submitMessages([message("hello")], { notBefore: LATER });
    return submissionId;
  });
const deploymentsOf = (durable: Durable) =>
  durable[CAPABILITIES].features.get("deployments", "the test") as Deployments;
const versionsOf = (agent: Agent) => inside(agent, ({ durable }) => deploymentsOf(durable).list());
const workOf = (agent: Agent) => inside(agent, ({ durable }) => deploymentsOf(durable).work());
const report = (agent: Agent) => inside(agent, ({ durable }) => durable.operations.healthReport());

/** Times are milliseconds, and a deploy does not come in the same one as the work. */
const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

it("work has the version that accepted it, also after a deploy and a rollback", async () => {
  const agent = givenAgent("1");
  const first = await submit(agent);
  await soon();
  await deploy(agent, "2");
  const second = await submit(agent);
  expect((await workOf(agent)).items).toMatchObject([
    { id: first, version: "1" },
    { id: second, version: "2" },
  ]);
  expect((await versionsOf(agent)).items).toMatchObject([
    { version: "2", isCurrent: true, open: { submission: 1 } },
    { version: "1", isCurrent: false, open: { submission: 1 } },
  ]);
  await soon();
  await deploy(agent, "1");
  await inside(agent, ({ durable }) => durable.cancelSubmission(second));
  expect((await versionsOf(agent)).items).toMatchObject([
    { version: "1", isCurrent: true, open: { submission: 1 } },
    { version: "2", isCurrent: false, open: {} },
  ]);
});

it("what was accepted before the feature was installed has no version", async () => {
  const agent = { name: `deployed-${crypto.randomUUID()}` };
  limitedApps.set(agent.name, { features: [operations()] });
  const id = await submit(agent);
  await soon();
  await deploy(agent, "1");
  expect((await workOf(agent)).items).toMatchObject([{ id, version: null }]);
  expect((await versionsOf(agent)).items).toMatchObject([
    { version: "1", isCurrent: true, open: {} },
    { version: null, since: null, isCurrent: false, open: { submission: 1 } },
  ]);
});

it("the report names a turn that three deploys have interrupted, and not before", async () => {
  const agent = givenAgent("1");
  const id = await inside(agent, async ({ durable }) => {
    const script = ask({ hangTimes: 100 });
    const options = { retry: { maxAttempts: 10 } } as const;
    return (await durable.submitMessages([message(script)], options)).submissionId;
  });
  const attempts = async () =>
    (await inside(agent, ({ durable }) => durable.inspectSubmission(id)))?.attempts;
  const codes = async () => (await report(agent)).findings.map(({ code }) => code);
  for (const [at, version] of ["2", "3", "4"].entries()) {
    await until(async () => (await attempts()) === at + 1);
    expect(await codes()).not.toContain("deploys-interrupt");
    await soon();
    await deploy(agent, version);
    await wake(agent);
  }
  await until(async () => (await attempts()) === 4);
  const { findings, verdicts } = await report(agent);
  expect(findings.find(({ code }) => code === "deploys-interrupt")).toMatchObject({
    evidence: { count: 1, ids: [id] },
  });
  expect(verdicts.succeeds).toBe(false);
  await inside(agent, ({ durable }) => durable.cancelSubmission(id));
  expect(await codes()).not.toContain("deploys-interrupt");
});

it("the report names runs that ended because their version is gone, with a restart", async () => {
  const agent = givenAgent("2");
  await inside(agent, async ({ durable }, { storage: { sql } }) => {
    await durable.submissionStats();
    durable.agent.getWorkflows();
    const error = "The run began with the version 1, which versions() does not have.";
    sql.exec(
      `INSERT INTO perdure_workflows (workflow_id, workflow_name, status, error_name, error, created_at, updated_at)
       VALUES ('lost', 'WAITING_WORKFLOW', 'errored', 'UnknownVersionError', ?, 1, ?)`,
      error,
      Date.now(),
    );
    sql.exec("INSERT INTO perdure_workflow_versions VALUES ('WAITING_WORKFLOW', 'lost', '1', 1)");
  });
  const { findings } = await report(agent);
  expect(findings.find(({ code }) => code === "version-gone")).toMatchObject({
    about: "WAITING_WORKFLOW 1",
    fix: { action: { do: "restart-workflow", workflowId: "lost" } },
  });
});

it("an operator migrates a run to another version, once, and an unknown run is not found", async () => {
  const agent = givenAgent("1");
  const id = await inside(agent, ({ durable }) => durable.runWorkflow("WAITING_WORKFLOW", {}));
  const migrate = (workflowId: string, version = "8") =>
    inside(agent, ({ durable }) =>
      durable.operations.operate({
        action: { do: "migrate-workflow", workflowId, version },
        ...{ by: "ann", reason: "the fix is in 8" },
      }),
    );
  const failure = (error: string) => ({
    outcome: "failed",
    failed: [{ id: expect.stringContaining(id), error: expect.stringContaining(error) }],
  });
  expect(await migrate(id)).toMatchObject(failure("versions() does not export its class"));
  expect((await workOf(agent)).items).toMatchObject([{ version: "1" }]);
  await inside(agent, (_, { storage: { sql } }) => {
    const query = "INSERT INTO perdure_workflow_versions VALUES ('WAITING_WORKFLOW', ?, '7', 1)";
    sql.exec(query, id);
  });
  expect(await migrate(id, "x".repeat(101))).toMatchObject(failure("1 to 100 characters"));
  expect(await migrate(id)).toMatchObject({ outcome: "done", count: 1 });
  expect((await workOf(agent)).items).toMatchObject([{ kind: "workflow", id, version: "8" }]);
  expect(await migrate(id)).toMatchObject({ outcome: "unchanged" });
  expect(await migrate("none")).toMatchObject({ outcome: "not-found" });
});
