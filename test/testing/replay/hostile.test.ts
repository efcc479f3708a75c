/** Replays of code that never ends, has effects, or throws, and of histories that are none. */

import { WorkflowEntrypoint } from "cloudflare:workers";
import type { AgentWorkflow } from "agents/workflows";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { PlatformStep, WorkflowHistory } from "../../../src/features/deploy/index.ts";
import { replayWorkflow } from "../../../src/testing/index.ts";
import type { ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { HANG_MS } from "../../support/sizes.ts";
import { codeOf, problemsOf, shown } from "../../support/workflows/histories.ts";

const params = { __agentName: "ada", __agentBinding: "ThinkAgent", __workflowName: "W" };
const done = (name: string, output: unknown = null, count = 1): PlatformStep => ({
  ...{ name, count, kind: "do", status: "completed" },
  ...{ startedAt: 1_000 + count, endedAt: 1_000 + count, output: output as never },
});
const open = (name: string, kind: PlatformStep["kind"] = "event"): PlatformStep => ({
  ...{ name, count: 1, kind, status: "open", startedAt: 9_000 },
});
const history = (platform: PlatformStep[], rest: object = {}): WorkflowHistory => ({
  ...{ workflow: "W", workflowId: "w-1", version: null, status: "running", startedAt: 1_000 },
  ...{ params, asked: [], platform, ...rest },
});

type Body = (step: ThinkWorkflowStep, self: never) => Promise<unknown>;

async function replayed(
  body: Body,
  platform: PlatformStep[],
  options: object = { timeout: HANG_MS },
) {
  const replay = await replayWorkflow(codeOf(body), history(platform), options);
  return { at: replay.at, problems: replay.problems.map(shown), texts: replay.problems };
}

describe("code that never ends", () => {
  it("a loop over a step waits at the first that the history does not have", async () => {
    const body: Body = async (step) => {
      for (;;) await step.do("again", async () => 1);
    };
    const platform = [1, 2, 3].map((count) => done("again", count, count));
    expect(await replayed(body, platform)).toMatchObject({ at: "waits", problems: [] });
  });

  it("a loop that catches all failures ends with a warning", async () => {
    const failed = {
      ...done("fails"),
      status: "failed" as const,
      error: { name: "E", message: "no" },
    };
    const body: Body = async (step) => {
      for (let count = 0; ; count++) {
        try {
          await step.do("fails", async () => count);
        } catch {
          await step.sleep("pause", 1);
        }
      }
    };
    expect(await replayed(body, [failed])).toMatchObject({ at: "waits", problems: [] });
  });

  it("a loop over calls of the agent outside of steps is stopped", async () => {
    const body: Body = async (step, self) => {
      await step.do("first", async () => 1);
      const { agent } = self as { agent: { isReady(): Promise<boolean> } };
      while (!(await agent.isReady()));
    };
    const found = await replayed(body, [done("first"), open("later")]);
    expect(found).toMatchObject({
      at: "stopped",
      problems: ["warning not-replayed: agent.isReady()"],
    });
    expect(found.texts[0]?.text).toContain("more steps and calls than a run can");
  });

  it("code that waits for something else is stopped when the time is over", async () => {
    const body: Body = () => new Promise(() => {});
    const found = await replayed(body, [open("later")], { timeout: 200 });
    expect(found).toMatchObject({ at: "stopped", problems: ["warning not-replayed: run()"] });
  });

  it("replays a run of 1,000 steps within its time", async () => {
    const body: Body = async (step) => {
      for (let count = 0; count < 1_000; count++) await step.do("again", async () => count);
    };
    const platform = Array.from({ length: 1_000 }, (_, index) => done("again", index, index + 1));
    expect(await replayed(body, platform)).toMatchObject({ at: "ended", problems: [] });
  });

  it("1,000 steps, each of which the new code has renamed", async () => {
    const body: Body = (step) =>
      Promise.all(Array.from({ length: 1_000 }, (_, at) => step.do(`new ${at}`, async () => at)));
    const platform = Array.from({ length: 1_000 }, (_, index) => done(`old ${index}`, index));
    const { problems } = await replayed(body, platform);
    expect(problems).toHaveLength(1_000);
    expect(problems[0]).toBe("error renamed-or-removed: old 0");
  });
});

describe("nothing is executed", () => {
  it("no code of a step, no binding, no agent", async () => {
    const effects: string[] = [];
    const body: Body = async (step, self) => {
      const { env, agent } = self as unknown as {
        env: Record<string, Record<string, (...args: unknown[]) => Promise<unknown>>>;
        agent: Record<string, () => Promise<unknown>>;
      };
      await env.QUEUE?.send?.({ n: 1 });
      await env.KV?.get?.("a");
      await agent.charge?.();
      await step.do("pay", async () => effects.push("paid"));
      await step.do("mail", { retries: { limit: 1, delay: 1 } }, async () =>
        effects.push("mailed"),
      );
      await step.waitForEvent("later", { type: "later" });
    };
    const binding = {
      send: async () => effects.push("sent"),
      get: async () => effects.push("read"),
    };
    const namespace = Object.assign(
      Object.create({ constructor: { name: "DurableObjectNamespace" } }),
      {
        get: () => effects.push("reached"),
        idFromName: () => effects.push("named"),
      },
    ) as object;
    class Binding {}
    const env = {
      ThinkAgent: namespace,
      QUEUE: Object.assign(new Binding(), binding),
      KV: Object.assign(new Binding(), binding),
      NAME: "a variable",
    };
    const platform = [done("pay"), done("mail"), open("later")];
    expect(await replayed(body, platform, { env })).toMatchObject({ at: "waits", problems: [] });
    const renamed: Body = async (step) => {
      await step.do("pay", async () => effects.push("paid"));
      await step.do("post", { rollback: () => effects.push("undone") } as never, async () =>
        effects.push("posted"),
      );
    };
    expect((await replayed(renamed, platform, { env })).problems).toEqual([
      "error renamed-or-removed: mail",
      "error renamed-or-removed: later",
    ]);
    expect(effects).toEqual([]);
  });

  it("a class of the platform, and one of agents", async () => {
    class Plain extends WorkflowEntrypoint<Cloudflare.Env> {
      override async run(_event: unknown, step: { do: ThinkWorkflowStep["do"] }) {
        return step.do("first", async () => 1);
      }
    }
    expect((await replayWorkflow(Plain, history([done("first")]))).at).toBe("ended");
    const { AgentWorkflow: Base } = await import("agents/workflows");
    class OfAgents extends Base {
      override async run(...[, step]: Parameters<AgentWorkflow["run"]>) {
        await this.reportProgress({ step: "one", percent: 0.5 });
        return step.do("first", async () => 1);
      }
    }
    expect(await replayWorkflow(OfAgents, history([done("first")]))).toMatchObject({
      problems: [],
      at: "ended",
    });
  });
});

describe("a history that is none", () => {
  const Class = codeOf(async () => 1);
  const refusal = async (given: unknown, Used: unknown = Class, options: unknown = {}) => {
    const call = replayWorkflow(Used as typeof Class, given as WorkflowHistory, options as object);
    return call.then(
      () => "accepted",
      ({ name, message }: Error) => `${name}: ${message}`,
    );
  };

  it.each<[unknown, string]>([
    [undefined, "history"],
    [null, "history"],
    ["{}", "history"],
    [[], "history"],
    [{}, "workflow"],
    [history([done("a")], { platform: "none" }), "platform"],
    [history([done("a")], { platform: [null] }), "platform"],
    [history([{ ...done("a"), kind: "wait" } as never]), "kind"],
    [history([{ ...done("a"), status: "done" } as never]), "status"],
    [history([{ ...done("a"), count: -1 }]), "count"],
    [history([{ ...done("a"), startedAt: "yesterday" } as never]), "startedAt"],
    [history([done("a")], { asked: [{ kind: "prompt" }] }), "asked"],
    [history(Array.from({ length: 1_001 }, (_, at) => done("a", 1, at + 1))), "1000"],
  ])("is refused with the field that is wrong: %#", async (given, field) => {
    const message = await refusal(given);
    expect(message).toMatch(/^InvalidHistoryError: /);
    expect(message).toContain(field);
  });

  it.each([null, "TicketWorkflow", {}, () => 1, class {}])(
    "a class that is no workflow is refused: %o",
    async (Used) => {
      expect(await refusal(history([done("a")]), Used)).toMatch(
        /^InvalidHistoryError: Invalid workflow class/,
      );
    },
  );

  it("invalid options are refused", async () => {
    const given = history([done("a")]);
    expect(await refusal(given, Class, { timeout: "2 minutes" })).toContain("timeout");
    expect(await refusal(given, Class, { env: "none" })).toContain("env");
    expect(await refusal(given, Class, { limit: 1 })).toContain("limit");
  });

  it("names of properties of objects are names of steps as any other", async () => {
    const names = ["__proto__", "constructor", "toString", "a:submit", "x~y:wait"];
    const body: Body = async (step) => {
      for (const name of names) await step.do(name, async () => 1);
      await step.waitForEvent("later", { type: "__proto__" });
    };
    const platform = [...names.map((name) => done(name, { waitId: "constructor" })), open("later")];
    expect(await problemsOf(body, history(platform))).toEqual([]);
  });

  it("answers of another form fail the run, and are no error of the replay", async () => {
    const body: Body = async (step) => {
      await step.prompt("file", { prompt: "?", output: z.object({}) });
    };
    for (const output of [null, 7, "x", [], { waitId: 1 }, { waitId: "a", eventType: "e" }]) {
      const platform = [
        done("file:submit", output),
        { ...open("file:wait"), status: "completed", endedAt: 9_001 } as never,
      ];
      const { problems } = await replayWorkflow(codeOf(body), history(platform));
      for (const { problem } of problems)
        expect(problem).toMatch(/^(would-fail|not-replayed|renamed)/);
    }
  });

  it("a history that is cut gives a warning instead of errors", async () => {
    const body: Body = async (step) => {
      await step.do("a", async () => 1);
      await step.do("b", async () => 1);
    };
    const given = history([done("a"), done("c")], { isCut: "more than 1,000 steps" });
    expect(await problemsOf(body, given)).toEqual(["warning not-replayed: run()"]);
    const none = history([], { isCut: "TimeoutError", status: "running" });
    expect(await problemsOf(body, none)).toEqual(["warning not-replayed: run()"]);
    expect(await problemsOf(body, history([done("a")], { params: null }))).toEqual([
      "warning not-replayed: run()",
    ]);
  });
});
