/** The workflow of each cell: a step, which the new code has edited, between others. Perdure's steps, and those of the platform. */

import {
  WorkflowEntrypoint,
  type WorkflowEvent,
  type WorkflowStep,
  type WorkflowStepConfig,
} from "cloudflare:workers";
import type { AgentWorkflowEvent } from "agents/workflows";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";
import { z } from "zod";
import { ask } from "../../src/testing/scripted-model.ts";
import { type agentOf, NEW, OLD, toolOf } from "./agents.ts";
import { type Cell, type Code, type Edit, idOf, type Kind, STATES } from "./cells.ts";
import { type DeskEnv, deskOf, passDesk } from "./desk.ts";
import { HELD } from "./model.ts";

export type Params = { readonly cell: Cell };
type Env = DeskEnv & Cloudflare.Env;
type Agent = InstanceType<ReturnType<typeof agentOf>>;

/** Waits for the driver in front of the step, or behind it. */
const GO = { type: "go", timeout: "1 hour" } as const;
const ITEMS = ["first", "second"];

/** What a flow makes of its parts: with the edit, if the code is new. */
type Parts = {
  /** A step with an effect that the desk counts. */
  readonly effect: (name: string) => Promise<unknown>;
  readonly hold: () => Promise<unknown>;
  /** The step that the edit is about. */
  readonly step: (name: string, kind: Kind) => Promise<unknown>;
};

async function play(cell: Cell, edit: Edit, { effect, hold, step }: Parts): Promise<void> {
  const { kind } = STATES[cell.state];
  const edited = async () => {
    if (edit === "insert-before") await effect("inserted");
    if (edit === "change-kind") await step("step", OTHER_KIND[kind]);
    else if (edit !== "remove") await step(edit === "rename-step" ? "renamed" : "step", kind);
    if (edit === "insert-after") await effect("inserted");
  };
  await effect("begin");
  if (cell.state === "before") await hold();
  if (edit === "reorder") await effect("side");
  await edited();
  if (edit !== "reorder") await effect("side");
  if (cell.state === "after") await hold();
  await effect("end");
}

const OTHER_KIND: Readonly<Record<Kind, Kind>> = {
  prompt: "do",
  do: "prompt",
  approval: "webhook",
  webhook: "approval",
  batch: "prompt",
};

/** The schema of answers, and the amount of those that a model gives when this code asks. */
function schemaOf(edit: Edit) {
  if (edit === "narrow") return { schema: z.object({ amount: z.number().max(NEW) }), amount: NEW };
  const amount = z.number();
  if (edit !== "widen") return { schema: z.object({ amount }), amount: OLD };
  return { schema: z.object({ amount, note: z.string().optional() }), amount: OLD };
}

const inForce = (cell: Cell, code: Code): Edit => (code === "new" ? cell.edit : "none");

export function flowOf(code: Code) {
  return class Flow extends ThinkWorkflow<Agent, Params, undefined, Env> {
    override async run({ payload: { cell } }: AgentWorkflowEvent<Params>, step: ThinkWorkflowStep) {
      const edit = inForce(cell, code);
      const id = idOf(cell);
      await play(cell, edit, {
        effect: (name) => effectStep(this.env, step, id, name),
        hold: () => step.waitForEvent("hold", GO),
        step: (name, kind) => perdureStep({ env: this.env, step, cell, code, edit }, name, kind),
      });
    }
  };
}

const effectStep = (env: Env, step: Pick<WorkflowStep, "do">, id: string, name: string) =>
  step.do(name, async () => {
    await deskOf(env).effect(id, name);
  });

type Made = {
  readonly env: Env;
  readonly step: ThinkWorkflowStep;
  readonly cell: Cell;
  readonly code: Code;
  readonly edit: Edit;
};

async function perdureStep({ env, step, cell, code, edit }: Made, name: string, kind: Kind) {
  const id = idOf(cell);
  const { schema, amount } = schemaOf(edit);
  const timeout = edit === "options" ? "2 hours" : "1 hour";
  const prompt = (what: string, isHeld: boolean) =>
    ask({
      id: `${id} ${what} ${isHeld ? HELD : ""}`,
      tool: { name: toolOf(cell.edit, code), input: { what } },
      answer: { amount },
    });
  const common = { timeout, ...(edit === "thread" && { thread: "other" }) } as const;
  switch (kind) {
    case "do":
      return schema.parse(
        await step.do(name, configOf(edit), async () => {
          await passDesk(env, id, "do");
          await deskOf(env).effect(id, "step");
          return { amount };
        }),
      );
    case "prompt": {
      const isHeld = cell.state === "waiting";
      return step.prompt(name, { prompt: prompt("step", isHeld), output: schema, ...common });
    }
    case "approval":
      return step.approval(name, { title: "Pay?", schema, timeout });
    case "batch":
      return step.promptAll(name, ITEMS, {
        prompt: (item) => prompt(item, item === "second"),
        key: (item) => item,
        output: schema,
        ...common,
        thread: edit === "thread" ? "other" : "isolated",
      });
    case "webhook":
      return step.webhook(name, { from: "stripe", match: { cell: id }, schema, timeout });
  }
}

function configOf(edit: Edit): WorkflowStepConfig {
  const limit = edit === "options" ? 9 : 5;
  return { retries: { limit, delay: "1 second" } };
}

/** The same without Perdure: a `do`, or an event. */
export function plainOf(code: Code) {
  return class Plain extends WorkflowEntrypoint<Env, Params> {
    override async run({ payload: { cell } }: WorkflowEvent<Params>, step: WorkflowStep) {
      const edit = inForce(cell, code);
      const id = idOf(cell);
      await play(cell, edit, {
        effect: (name) => effectStep(this.env, step, id, name),
        hold: () => step.waitForEvent("hold", GO),
        step: (name) => plainStep({ env: this.env, step, cell, edit }, name),
      });
    }
  };
}

type PlainMade = Pick<Made, "env" | "cell" | "edit"> & { readonly step: WorkflowStep };

async function plainStep({ env, step, cell, edit }: PlainMade, name: string): Promise<unknown> {
  const id = idOf(cell);
  const { schema, amount } = schemaOf(edit);
  // Another kind: an event in place of a `do`, and the other way round.
  const isEvent = (cell.state === "waiting") !== (edit === "change-kind");
  if (isEvent) {
    const event = await step.waitForEvent<object>(name, {
      type: "paid",
      timeout: edit === "options" ? "2 hours" : "1 hour",
    });
    return schema.parse(event.payload);
  }
  const one = (called: string, what: string, isHeld: boolean) =>
    step.do(called, configOf(edit), async () => {
      if (isHeld) await passDesk(env, id, what);
      await deskOf(env).effect(id, what);
      return { amount };
    });
  if (cell.state !== "batch") return schema.parse(await one(name, "step", cell.state === "in"));
  return Promise.all(
    ITEMS.map(async (item) => schema.parse(await one(`${name} ${item}`, item, item === "second"))),
  );
}
