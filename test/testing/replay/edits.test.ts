/** What a replay says of each kind of edit, at each state of a run that the old code has made in the real engine. */

import { env } from "cloudflare:workers";
import type { AgentWorkflowEvent } from "agents/workflows";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { versions } from "../../../src/features/deploy/index.ts";
import type { WorkflowHistory } from "../../../src/features/deploy/types.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { sleepUntilNext } from "../../../src/scheduler/index.ts";
import { ask, replayWorkflow } from "../../../src/testing/index.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { until } from "../../support/given.ts";
import { hold } from "../../support/held-model.ts";
import { HANG_MS } from "../../support/sizes.ts";
import {
  codeOf,
  historyAt,
  historyIn,
  problemsOf,
  shown,
} from "../../support/workflows/histories.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

const Ticket = z.object({ title: z.string() });
const Refund = z.object({ amount: z.number() });
const never = new Promise<never>(() => {});

/** The history of a run of that code, once a step is open. */
async function givenRun(body: WorkflowBody, step: string): Promise<WorkflowHistory> {
  await using workflow = await givenScriptedWorkflow(body);
  await workflow.start();
  return await historyAt(workflow.agent, workflow.id, step);
}

/** One run for all edits of it. */
function sharedRun(body: WorkflowBody, step: string): () => Promise<WorkflowHistory> {
  let run: WorkflowHistory | undefined;
  return async () => {
    run ??= await givenRun(body, step);
    return structuredClone(run);
  };
}

describe("two edits", () => {
  it("are both said, also that of an open step behind a new one", async () => {
    const old: WorkflowBody = async (step) => {
      await step.do("charge", async () => "receipt");
      await step.approval("refund", { schema: Refund });
    };
    const history = await givenRun(old, "refund:approval-wait");
    const edited: WorkflowBody = async (step) => {
      await step.do("charge card", async () => "receipt");
      await step.approval("refund", { schema: Refund.extend({ why: z.string() }) });
    };
    expect(await problemsOf(edited, history)).toEqual([
      "error request-changed: refund",
      "error renamed-or-removed: charge",
    ]);
  });
});

describe("what a history does not tell", () => {
  const old: WorkflowBody = async (step) => {
    const { payload } = await step.waitForEvent<{ ok: boolean }>("answer", { type: "answer" });
    await step.do(payload.ok ? "yes" : "no", async () => 1);
    await step.approval("close", { data: { amount: 5 } });
  };
  async function given() {
    await using workflow = await givenScriptedWorkflow(old);
    await workflow.start();
    await historyAt(workflow.agent, workflow.id, "answer");
    await (await workflow.handle()).sendEvent({ type: "answer", payload: { ok: true } });
    return await historyAt(workflow.agent, workflow.id, "close:approval-wait");
  }

  it("is said, where the code decides by it", async () => {
    expect(await problemsOf(old, await given())).toEqual(["warning not-replayed: run()"]);
  });

  describe("a step behind an event that was renamed", () => {
    type Payload = { ok: boolean; kind: string; amount: number };
    type Rest = (step: ThinkWorkflowStep, payload: Payload) => Promise<unknown>;
    const behind =
      (rest: Rest): WorkflowBody =>
      async (step) => {
        const { payload } = await step.waitForEvent<Payload>("answer", { type: "answer" });
        await rest(step, payload);
        await step.waitForEvent("end", { type: "end" });
      };
    async function runOf(rest: Rest): Promise<WorkflowHistory> {
      await using workflow = await givenScriptedWorkflow(behind(rest));
      await workflow.start();
      await historyAt(workflow.agent, workflow.id, "answer");
      const payload = { ok: false, kind: "refund", amount: 7 };
      await (await workflow.handle()).sendEvent({ type: "answer", payload });
      return await historyAt(workflow.agent, workflow.id, "end");
    }
    const charge: Rest = (step, { amount }) => step.do("charge", async () => amount);

    it.each<[string, Rest, Rest]>([
      ["is an error", charge, (step, { amount }) => step.do("charge card", async () => amount)],
      [
        "is an error on a path that the payload decides",
        async (step, { ok }) => (ok ? undefined : step.do("charge", async () => 1)),
        async (step, { ok }) => (ok ? undefined : step.do("charge card", async () => 1)),
      ],
      [
        "is an error where the name has a part that the payload does not decide",
        async (step) => step.do(`charge ${[1].length}`, async () => 1),
        async (step) => step.do(`charge card ${[1].length}`, async () => 1),
      ],
    ])("%s", async (_, old, edited) => {
      const history = await runOf(old);
      expect(await problemsOf(behind(old), history)).not.toContainEqual(
        expect.stringContaining("error"),
      );
      expect(await problemsOf(behind(edited), history)).toEqual([
        expect.stringMatching(/^error renamed-or-removed: charge/),
      ]);
    });

    it("is not known where its name, or a loop, comes from the payload", async () => {
      const named: Rest = (step, { kind }) => step.do(`charge ${kind}`, async () => 1);
      expect(await problemsOf(behind(named), await runOf(named))).toEqual([
        "warning not-replayed: run()",
      ]);
      const looped: Rest = async (step, { amount }) => {
        for (let nth = 0; nth < amount; nth++) await step.do("charge", async () => nth);
      };
      expect(await problemsOf(behind(looped), await runOf(looped))).toEqual([
        "warning not-replayed: run()",
      ]);
    });

    it("is not known where the class still has a step of that name, on another path", async () => {
      const decide: Rest = (step, { kind }) =>
        kind === "refund" ? step.do("charge", async () => 1) : step.do("decline", async () => 1);
      const history = await runOf(decide);
      class Decides extends ThinkWorkflow {
        override async run(_event: AgentWorkflowEvent<unknown>, step: ThinkWorkflowStep) {
          const { payload } = await step.waitForEvent<Payload>("answer", { type: "answer" });
          if (payload.kind === "refund") await step.do("charge", async () => 1);
          else await step.do("decline", async () => 1);
          await step.waitForEvent("end", { type: "end" });
        }
      }
      for (const Class of [Decides, versions({ "1": Decides }, { unversioned: "1" })]) {
        const { problems } = await replayWorkflow(Class, history, { timeout: HANG_MS });
        expect(problems.map(shown)).toEqual(["warning not-replayed: run()"]);
      }
    });
  });

  it("an approval with other data", async () => {
    const edited: WorkflowBody = async (step) => {
      const { payload } = await step.waitForEvent<{ ok: boolean }>("answer", { type: "answer" });
      await step.do(payload.ok ? "yes" : "no", async () => 1);
      await step.approval("close", { data: { amount: 500 } });
    };
    expect(await problemsOf(edited, await given())).toEqual([
      "warning request-changed: close",
      "warning not-replayed: run()",
    ]);
  });

  it("asks no binding, also where the code imports env", async () => {
    const asking: WorkflowBody = async (step) => {
      const workflow = Reflect.get(env, "SCRIPTED_WORKFLOW") as Workflow;
      await workflow.create({ id: "never made" });
      await old(step, undefined as never);
    };
    expect(await problemsOf(asking, await given())).toEqual(["warning not-replayed: run()"]);
    await expect(env.SCRIPTED_WORKFLOW.get("never made")).rejects.toThrow();
  });

  it("sends no request", async () => {
    let isSent = false;
    const real = globalThis.fetch;
    globalThis.fetch = async () => {
      isSent = true;
      return new Response("");
    };
    const asking: WorkflowBody = async (step) => {
      await fetch("http://127.0.0.1:9/");
      await old(step, undefined as never);
    };
    try {
      expect(await problemsOf(asking, await given())).toEqual(["warning not-replayed: run()"]);
    } finally {
      globalThis.fetch = real;
    }
    expect(isSent).toBe(false);
  });
});

describe("steps of the platform", () => {
  const old: WorkflowBody = async (step) => {
    await step.do("charge", async () => "receipt");
    await step.do("mail", async () => "sent");
    await step.waitForEvent("answer", { type: "answer" });
    await step.do("close", async () => 1);
  };
  const given = sharedRun(old, "answer");
  const wait = (step: ThinkWorkflowStep) => step.waitForEvent("answer", { type: "answer" });

  it.each<[string, string[], WorkflowBody]>([
    ["the same code", [], old],
    [
      "a completed step with another name would run again",
      ["error renamed-or-removed: charge"],
      async (step) => {
        await step.do("charge card", async () => 1);
        await step.do("mail", async () => 1);
        await wait(step);
      },
    ],
    [
      "an open event with another name is lost",
      ["error renamed-or-removed: answer"],
      async (step) => {
        await step.do("charge", async () => 1);
        await step.do("mail", async () => 1);
        await step.waitForEvent("reply", { type: "answer" });
      },
    ],
    [
      "a new step before recorded ones runs after them",
      ["warning inserted: check"],
      async (step) => {
        await step.do("charge", async () => 1);
        const { isOk } = await step.do("check", async () => ({ isOk: true }));
        if (isOk !== null) await step.do("mail", async () => 1);
        await wait(step);
      },
    ],
    [
      "a new step after the open one is no problem",
      [],
      async (step) => {
        await step.do("charge", async () => 1);
        await step.do("mail", async () => 1);
        await wait(step);
        await step.do("more", async () => 1);
      },
    ],
    [
      "a removed step that was made",
      ["warning renamed-or-removed: mail"],
      async (step) => {
        await step.do("charge", async () => 1);
        await wait(step);
      },
    ],
    [
      "an open event that is gone",
      ["error renamed-or-removed: answer"],
      async (step) => {
        await step.do("charge", async () => 1);
        await step.do("mail", async () => 1);
      },
    ],
    [
      "steps in another order",
      ["warning reordered: charge"],
      async (step) => {
        await step.do("mail", async () => 1);
        await step.do("charge", async () => 1);
        await wait(step);
      },
    ],
    [
      "a step of another kind",
      ["error kind-changed: mail"],
      async (step) => {
        await step.do("charge", async () => 1);
        await step.sleep("mail", 1_000);
        await wait(step);
      },
    ],
    [
      "code that throws",
      ["error would-fail: run()"],
      async (step) => {
        await step.do("charge", async () => 1);
        await step.do("mail", async () => 1);
        throw new TypeError("not a function");
      },
    ],
    [
      "a name with the time in it",
      [`warning not-replayed: at ${new Date().getUTCDate()}`],
      async (step) => {
        await step.do(`at ${new Date().getUTCDate()}`, async () => 1);
        await wait(step);
      },
    ],
  ])("%s", async (_, expected, body) => {
    expect(await problemsOf(body, await given())).toEqual(expected);
  });

  it("a run that has not begun has no problems", async () => {
    const history = await given();
    const queued = { ...history, status: "queued", platform: [], asked: [] };
    expect(await problemsOf(async (step) => step.do("other", async () => 1), queued)).toEqual([]);
  });

  it("code that throws before its first await", async () => {
    const body = () => {
      throw new RangeError("too soon");
    };
    expect(await problemsOf(body, await given())).toEqual(["error would-fail: run()"]);
  });
});

describe("steps that ask the agent", () => {
  const approval =
    (schema: z.ZodType, rest = {}): WorkflowBody =>
    async (step) => {
      await step.approval("refund", { schema, title: "Refund?", ...rest } as never);
      await step.do("pay", async () => 1);
    };
  const given = sharedRun(approval(Refund), "refund:approval-wait");

  it.each<[string, string[], WorkflowBody]>([
    ["the same code", [], approval(Refund)],
    ["another title", [], approval(Refund, { title: "Please refund" })],
    [
      "a new required property may refuse the decision",
      ["error request-changed: refund"],
      approval(z.object({ amount: z.number(), note: z.string() })),
    ],
    [
      "a narrower type may refuse the decision",
      ["error request-changed: refund"],
      approval(z.object({ amount: z.number().max(100) })),
    ],
    [
      "a new optional property is no problem",
      [],
      approval(z.object({ amount: z.number(), note: z.string().optional() })),
    ],
    [
      "a wider type is no problem",
      [],
      approval(z.object({ amount: z.union([z.number(), z.string()]) })),
    ],
    [
      "a default is no problem",
      [],
      approval(z.object({ amount: z.number(), note: z.string().default("") })),
    ],
    [
      "another name leaves the approval open",
      ["error renamed-or-removed: refund"],
      async (step) => {
        await step.approval("pay back", { schema: Refund });
      },
    ],
    [
      "a prompt in its place",
      ["error kind-changed: refund"],
      async (step) => {
        await step.prompt("refund", { prompt: "How much?" });
      },
    ],
    ["no approval any more", ["error renamed-or-removed: refund"], async () => 1],
  ])("an open approval: %s", async (_, expected, body) => {
    expect(await problemsOf(body, await given())).toEqual(expected);
  });

  const prompt =
    (output: z.ZodType, rest: object = {}): WorkflowBody =>
    async (step) => {
      await step.prompt("file", { prompt: ask({ answer: { title: "fire" } }), output, ...rest });
      await step.waitForEvent("answer", { type: "answer" });
    };

  const answered = sharedRun(prompt(Ticket), "answer");

  it.each<[string, string[], WorkflowBody]>([
    ["the same code", [], prompt(Ticket)],
    ["a schema that takes the answer", [], prompt(z.object({ title: z.string().max(5) }))],
    [
      "a schema that refuses the answer",
      ["error answer-refused: file"],
      prompt(z.object({ title: z.string(), severity: z.string() })),
    ],
    [
      "a refinement that refuses the answer",
      ["error answer-refused: file"],
      prompt(Ticket.refine(({ title }) => title !== "fire")),
    ],
    [
      "a refinement that refuses the answer, with repairs",
      ["error answer-refused: file"],
      prompt(
        Ticket.refine(({ title }) => title !== "fire"),
        { repair: 2 },
      ),
    ],
    ["another thread", ["warning request-changed: file"], prompt(Ticket, { thread: "mails" })],
    ["options that have no effect any more", [], prompt(Ticket, { repair: 3, timeout: "1 hour" })],
    [
      "another name asks the model again",
      ["error renamed-or-removed: file"],
      async (step) => {
        await step.prompt("file it", { prompt: ask({}), output: Ticket });
        await step.waitForEvent("answer", { type: "answer" });
      },
    ],
    [
      "a prompt before it runs after it",
      ["warning inserted: look"],
      async (step) => {
        await step.prompt("look", { prompt: ask({}), output: Refund });
        await prompt(Ticket)(step, undefined as never);
      },
    ],
  ])("a prompt that was answered: %s", async (_, expected, body) => {
    expect(await problemsOf(body, await answered())).toEqual(expected);
  });

  it("an open prompt: a narrower schema, other options, another thread", async () => {
    const open =
      (output: z.ZodType, rest: object = {}): WorkflowBody =>
      async (step) => {
        await step.prompt("file", { prompt: ask({ delayMs: 60_000 }), output, ...rest });
      };
    const history = await givenRun(open(Ticket), "file:wait");
    expect(await problemsOf(open(Ticket), history)).toEqual([]);
    const narrow = z.object({ title: z.string(), severity: z.string() });
    expect(await problemsOf(open(narrow), history)).toEqual(["error request-changed: file"]);
    expect(await problemsOf(open(Ticket, { maxSteps: 3 }), history)).toEqual([
      "warning request-changed: file",
    ]);
    expect(await problemsOf(open(Ticket, { thread: "mails" }), history)).toEqual([
      "warning request-changed: file",
    ]);
  });

  it("a decision that the new schema refuses", async () => {
    const body =
      (schema: z.ZodType): WorkflowBody =>
      async (step) => {
        await step.approval("refund", { schema } as never);
        await step.waitForEvent("answer", { type: "answer" });
      };
    await using workflow = await givenScriptedWorkflow(body(Refund));
    await workflow.start();
    const { asked } = await historyAt(workflow.agent, workflow.id, "refund:approval-wait");
    await capabilitiesOf(workflow.agent).approvals.grant(asked[0]?.waitId ?? "", {
      payload: { amount: 50 },
    });
    const history = await historyAt(workflow.agent, workflow.id, "answer");
    expect(await problemsOf(body(Refund), history)).toEqual([]);
    const narrow = z.object({ amount: z.number().max(10) });
    expect(await problemsOf(body(narrow), history)).toEqual(["error answer-refused: refund"]);
  });

  it("a batch: the same, half done, renamed, refused", async () => {
    const b = hold({ answer: { title: "b" } });
    const body =
      (name: string, output: z.ZodType = Ticket): WorkflowBody =>
      async (step) => {
        await step.promptAll(name, ["a", "b"], {
          prompt: (item) => ask(item === "b" ? b.script : { answer: { title: item } }),
          output,
        });
        await step.waitForEvent("answer", { type: "answer" });
      };
    await using workflow = await givenScriptedWorkflow(body("moods"));
    await workflow.start();
    const half = await until(async () => {
      const history = await historyIn(workflow.agent, workflow.id);
      return history.asked.filter(({ end }) => end).length === 1 && history;
    });
    expect(await problemsOf(body("moods"), half)).toEqual([]);
    expect(await problemsOf(body("tempers"), half)).toEqual(["error renamed-or-removed: moods"]);
    // The first one has ended, and the second one has not.
    const short = z.object({ title: z.string().max(0) });
    expect(await problemsOf(body("moods", short), half)).toEqual(["error request-changed: moods"]);
    b.release();
    const history = await historyAt(workflow.agent, workflow.id, "answer");
    expect(await problemsOf(body("moods"), history)).toEqual([]);
    expect(await problemsOf(body("tempers"), history)).toEqual(["error renamed-or-removed: moods"]);
    const narrow = Ticket.refine(({ title }) => title !== "a");
    expect(await problemsOf(body("moods", narrow), history)).toEqual([
      "error answer-refused: moods",
    ]);
  });

  it("a schema that takes its time is waited for", async () => {
    const slow = Ticket.refine(async () => {
      await new Promise((resolve) => setTimeout(resolve, 600));
      return true;
    });
    const body: WorkflowBody = async (step) => {
      const other = step.waitForEvent("answer", { type: "answer" });
      await step.prompt("file", { prompt: ask({ answer: { title: "fire" } }), output: slow });
      await step.do("save", async () => 1);
      await other;
    };
    await using workflow = await givenScriptedWorkflow(body);
    await workflow.start();
    const history = await historyAt(workflow.agent, workflow.id, "save", "completed");
    expect(await problemsOf(body, history)).toEqual([]);
  });

  describe("a batch whose onError changed", () => {
    const body =
      (onError: "throw" | "return", failing = ""): WorkflowBody =>
      async (step) => {
        await step.promptAll("moods", ["a", "b"], {
          prompt: (item) => ask(item === failing ? { fail: "no" } : { answer: { title: item } }),
          output: Ticket,
          onError,
        });
        await step.waitForEvent("answer", { type: "answer" });
      };

    it("is no error where all items have answers", async () => {
      for (const [old, now] of [
        ["return", "throw"],
        ["throw", "return"],
      ] as const) {
        const history = await givenRun(body(old), "answer");
        expect(await problemsOf(body(now), history)).toEqual([]);
      }
    });

    it("fails the run where an item has failed, and the new code throws for it", async () => {
      const history = await givenRun(body("return", "b"), "answer");
      expect(await problemsOf(body("return", "b"), history)).toEqual([]);
      expect(await problemsOf(body("throw", "b"), history)).toEqual(["error would-fail: run()"]);
    });

    it("is no error while its items are open", async () => {
      const b = hold({ answer: { title: "b" } });
      const half =
        (onError: "throw" | "return"): WorkflowBody =>
        async (step) => {
          const prompt = (item: string) =>
            ask(item === "b" ? b.script : { answer: { title: "a" } });
          await step.promptAll("moods", ["a", "b"], { prompt, output: Ticket, onError });
        };
      await using workflow = await givenScriptedWorkflow(half("return"));
      await workflow.start();
      const history = await until(async () => {
        const found = await historyIn(workflow.agent, workflow.id);
        return found.asked.filter(({ end }) => end).length === 1 && found;
      });
      expect(await problemsOf(half("throw"), history)).toEqual([]);
      b.release();
    });
  });

  it("a batch with other items finds the answers of the same keys", async () => {
    const body =
      (items: string[]): WorkflowBody =>
      async (step) => {
        await step.promptAll("moods", items, {
          prompt: (item) => ask({ answer: { title: item } }),
          key: (item) => item,
          output: Ticket,
        });
        await step.waitForEvent("answer", { type: "answer" });
      };
    const history = await givenRun(body(["a", "b"]), "answer");
    expect(await problemsOf(body(["b", "a", "c"]), history)).toEqual([
      "warning request-changed: moods",
    ]);
  });

  it("a prompt with another key is asked again", async () => {
    const body =
      (key: string): WorkflowBody =>
      async (step) => {
        await step.prompt("file", {
          key,
          prompt: ask({ answer: { title: "fire" } }),
          output: Ticket,
        });
        await step.waitForEvent("answer", { type: "answer" });
      };
    const history = await givenRun(body("a"), "answer");
    const { problems } = await replayWorkflow(codeOf(body("b")), history);
    expect(problems).toMatchObject([
      { severity: "error", problem: "renamed-or-removed", step: "file" },
    ]);
    expect(problems[0]?.text).toContain("with another key");
  });

  it("another schedule sleeps again", async () => {
    const body =
      (name: string, schedule: "every 1 hour" | "every 2 hours"): WorkflowBody =>
      async (step) => {
        await sleepUntilNext(step, name, schedule);
      };
    const history = await givenRun(body("hour", "every 1 hour"), "hour:sleep-hop-0");
    expect(await problemsOf(body("hour", "every 2 hours"), history)).toEqual([]);
    expect(await problemsOf(body("hours", "every 2 hours"), history)).toEqual([
      "warning renamed-or-removed: hour",
    ]);
  });

  it("a prompt of another agent is replayed as far as its answer does not matter", async () => {
    const body =
      (rest: (step: ThinkWorkflowStep, title: string) => Promise<unknown>): WorkflowBody =>
      async (step) => {
        const agent = { binding: "ThinkAgent", name: `other-${crypto.randomUUID()}` };
        const prompt = ask({ answer: { title: "fire" }, delayMs: 200 });
        const { title } = await step.prompt("file", { agent, prompt, output: Ticket });
        await rest(step, title);
        await step.waitForEvent("answer", { type: "answer" });
      };
    const same = body((step) => step.do("save", async () => 1));
    expect(await problemsOf(same, await givenRun(same, "answer"))).toEqual([]);
    const named = body((step, title) => step.do(`save ${title}`, async () => 1));
    expect(await problemsOf(named, await givenRun(named, "answer"))).toEqual([
      "warning not-replayed: run()",
    ]);
  });

  it("a run that waits for something that is no step is not replayed further", async () => {
    const history = await given();
    const replay = await replayWorkflow(
      codeOf(() => never),
      history,
      { timeout: 300 },
    );
    expect(replay).toMatchObject({ at: "stopped", problems: [{ problem: "not-replayed" }] });
  });
});
