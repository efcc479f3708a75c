/** Runs of workflows continue by the class that they began with. */

import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import type { CallsKernel } from "../../../src/core/calls.ts";
import type { WorkflowClass, WorkflowHistory } from "../../../src/features/deploy/index.ts";
import { outputOf, pauseAndResume, reached } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import { agentOf, classOf, deploy, deployed, objectClass, ticket, versions } from "./deployed.ts";

const workflow = () => env.DEPLOYED_WORKFLOW;
const router = (...args: Parameters<typeof versions>) => versions(...args) as WorkflowClass;

/** The run waits, or has ended. The local engine has no status for it. */
async function atWait(id: string): Promise<void> {
  const filter = ["wait_started" as const, "workflow_errored" as const];
  using events = await (await workflow().get(id)).subscribe({ filter });
  await events.next();
}

async function given(name = `ticket-${crypto.randomUUID()}`) {
  const id = name;
  return {
    id,
    agent: () => agentOf(id),
    async start() {
      await agentOf(id).start(id);
      await atWait(id);
    },
    /** At its wait the engine starts again, by what is deployed then. */
    replayed: (meanwhile: () => void) => pauseAndResume(workflow(), id, async () => meanwhile()),
    go: async () => (await workflow().get(id)).sendEvent({ type: "go", payload: {} }),
    restart: async () => (await workflow().get(id)).restart(),
    output: () => outputOf(workflow(), id),
    /** The local engine has the name of an error in its message. */
    error: async () => (await reached(workflow(), id, "errored")).error?.message,
    /** Names of the steps, of which there are so many. More of them are returned as well. */
    steps: async (count: number) => {
      const names: string[] = [];
      using events = await (await workflow().get(id)).subscribe({ filter: ["step_started"] });
      for (let done = false; !done; ) {
        const none = new Promise<undefined>((resolve) => setTimeout(resolve, 200));
        const next = await (names.length < count
          ? events.next()
          : Promise.race([events.next(), none]));
        if (next?.value && "stepName" in next.value) names.push(next.value.stepName);
        else done = true;
      }
      return names;
    },
  };
}

afterEach(() => {
  deployed.isOn = true;
});

const SEVEN = ticket("seven");
const EIGHT = ticket("eight");
const by = (name: string, second = name) => [
  `first by ${name}`,
  `second by ${second}`,
  { order: 17 },
];

describe("a run", () => {
  test("continues by the class that it began with, and new runs begin with the newest", async () => {
    deploy("a", router({ "7": SEVEN }));
    const old = await given();
    await old.start();
    await old.replayed(() => deploy("b", router({ "7": SEVEN, "8": EIGHT })));
    const young = await given();
    await young.start();
    await old.go();
    await young.go();
    expect(await old.output()).toEqual(by("seven"));
    expect(await young.output()).toEqual(by("eight"));
    expect(await young.steps(3)).toEqual(["perdure:version-1", "first-1", "second-1"]);
  });

  test("records the name of its Workflow with its version, of which its history has no other record", async () => {
    deploy("a", router({ "7": SEVEN }));
    const run = await given();
    await run.start();
    const calls = run.agent() as unknown as CallsKernel<{
      "deployments.history"(id: string): Promise<WorkflowHistory>;
    }>;
    const history = await calls.callKernel("deployments.history", run.id);
    expect(history).toMatchObject({ workflow: "DEPLOYED_WORKFLOW", deployedAs: "deployed" });
    await run.go();
    expect(await run.output()).toEqual(by("seven"));
  });

  test("that began before its class had a version continues by `unversioned`", async () => {
    deploy("a", SEVEN);
    const run = await given();
    await run.start();
    const next = router({ "7": SEVEN, "8": EIGHT }, { unversioned: "7" });
    await run.replayed(() => deploy("b", next));
    await run.go();
    expect(await run.output()).toEqual(by("seven"));
  });

  test("that began before its class had a version ends with a named error, and can be restarted", async () => {
    deploy("a", SEVEN);
    const run = await given();
    await run.start();
    await run.replayed(() => deploy("b", router({ "8": EIGHT })));
    expect(await run.error()).toMatch(
      /UnknownVersionError.*before its class had a version.*It has "8".*restart the run/s,
    );
    const error = { name: "UnknownVersionError" };
    expect(await run.agent().statusOf(run.id)).toMatchObject({ status: "errored", error });

    await run.restart();
    await atWait(run.id);
    await run.go();
    expect(await run.output()).toEqual(by("eight"));
  });

  test("of a version that is gone takes no path, and its class continues it when it is back", async () => {
    deploy("a", router({ "7": SEVEN }));
    const run = await given();
    await run.start();
    await run.replayed(() => deploy("b", router({ "8": EIGHT })));
    expect(await run.error()).toMatch(/with the version "7", which versions\(\) does not have/);
    expect(await run.steps(2)).toEqual(["perdure:version-1", "first-1"]);
  });

  test("that an operator has migrated continues by the class of its new version", async () => {
    deploy("a", router({ "7": SEVEN, "8": EIGHT }));
    const run = await given();
    await run.start();
    deploy("a", router({ "7": SEVEN, "8": EIGHT, "9": ticket("nine") }));
    await run.replayed(() => {});
    await run.agent().setVersion(run.id, "7");
    await run.replayed(() => {});
    await run.go();
    expect(await run.output()).toEqual(by("eight", "seven"));
  });

  test("of a plain object continues by the class that it began with", async () => {
    deploy("a", router({ "7": objectClass("seven") }));
    const run = await given();
    await env.DeployedObject.getByName(run.id).start(run.id);
    await atWait(run.id);
    await run.replayed(() =>
      deploy("b", router({ "7": objectClass("seven"), "8": objectClass("eight") })),
    );
    await run.go();
    expect(await run.output()).toEqual(by("seven"));
  });

  test("of a sub-agent continues by the class that it began with", async () => {
    deploy("a", router({ "7": SEVEN }));
    const run = await given();
    await run.agent().startOfChild(run.id);
    await atWait(run.id);
    await run.replayed(() => deploy("b", router({ "7": SEVEN, "8": EIGHT })));
    await run.go();
    expect(await run.output()).toEqual(by("seven"));
  });

  test("continues where the Worker exports a class that extends versions()", async () => {
    class TicketWorkflow extends versions({ "7": SEVEN, "8": EIGHT }) {}
    deploy("a", TicketWorkflow as never);
    const run = await given();
    await run.start();
    await run.go();
    expect(await run.output()).toEqual(by("eight"));
  });

  test("that an operator has migrated before it has started again keeps to that", async () => {
    deploy("a", SEVEN);
    const run = await given();
    await run.start();
    await run.agent().setVersion(run.id, "8");
    await run.replayed(() => deploy("b", router({ "7": SEVEN, "8": EIGHT })));
    await run.go();
    expect(await run.output()).toEqual(by("seven", "eight"));
  });

  test("reports an error of its class once", async () => {
    const failing = classOf(async (step) => {
      await step.do("first", async () => null);
      throw new Error("it has failed");
    });
    deploy("a", router({ "7": failing, "8": EIGHT }, { unversioned: "7" }));
    deploy("a", router({ "7": failing }));
    const run = await given();
    await run.start();
    expect(await run.error()).toMatch("it has failed");
    await until(async () => (await run.agent().errors()).length > 0);
    expect(await run.agent().errors()).toEqual(["it has failed"]);
  });

  test("needs deployments() on its agent", async () => {
    deploy("a", router({ "7": SEVEN }));
    deployed.isOn = false;
    const run = await given();
    await run.start();
    expect(await run.error()).toMatch(
      /deployments\.begin needs deployments\(\)\. Add to the class/,
    );
  });

  test("waits for its agent while that is down", async () => {
    deploy("a", router({ "7": SEVEN }));
    const run = await given();
    deployed.crashes = 2;
    await run.start();
    await run.go();
    expect(await run.output()).toEqual(by("seven"));
    expect(deployed.crashes).toBe(0);
  });
});

describe("step.version()", () => {
  const taxes = (changes: readonly string[], asked = "new-tax-rule") =>
    classOf(
      async (step) => {
        await step.waitForEvent("go", { type: "go", timeout: "1 hour" });
        return step.version(asked);
      },
      { changes },
    );

  test("is true for runs that began after the change, and false for those before", async () => {
    deploy("a", router({ "7": taxes([], "other") }));
    const old = await given();
    await old.start();
    await old.replayed(() => deploy("b", router({ "7": taxes(["new-tax-rule"]) })));
    const young = await given();
    await young.start();
    await old.go();
    await young.go();
    expect(await old.output()).toBe(false);
    expect(await young.output()).toBe(true);
  });

  test("refuses a change that the class does not list, and a class that versions() does not export", async () => {
    deploy("a", router({ "7": taxes(["new-tax-rule"], "new-tax-rul") }));
    const typo = await given();
    await typo.start();
    await typo.go();
    expect(await typo.error()).toMatch(
      /expected one of static changes.*new-tax-rule; got "new-tax-rul"/,
    );
    deploy("a", taxes(["new-tax-rule"]));
    const plain = await given();
    await plain.start();
    await plain.go();
    expect(await plain.error()).toMatch(/versions\(\)/);
  });
});

describe("versions()", () => {
  test.each<[string, unknown, RegExp]>([
    ["none", {}, /expected an object with 1 to 100 versions/],
    ["no object", [SEVEN], /expected an object with 1 to 100 versions/],
    [
      "no class",
      { "7": () => {} },
      /expected a class that extends ThinkWorkflow or DurableWorkflow/,
    ],
    ["a class without run()", { "7": class {} }, /expected a class that extends/],
    ["numbers and others", { "7": SEVEN, next: EIGHT }, /whole numbers only, or none/],
    ["an empty version", { "": SEVEN }, /version/],
    ["another static version", { "7": ticket("x", { version: "8" }) }, /static version/],
    ["changes that are no list", { "7": ticket("x", { changes: "all" }) }, /changes/],
  ])("refuses %s", (_, classes, message) => {
    expect(() => versions(classes as never)).toThrow(message);
  });

  test("refuses an unknown unversioned", () => {
    expect(() => versions({ "7": SEVEN }, { unversioned: "6" as never })).toThrow(/one of 7/);
  });

  test("takes a class whose static version is its key", () => {
    expect(versions({ "7": ticket("x", { version: "7" }) })).toBeTypeOf("function");
  });
});
