/** What becomes of a workflow's prompts when their agent dies: one that is asked, and batches of them. */

import { ask, type Script } from "../../../src/testing/index.ts";
import type { Plans } from "../../support/crash/matrix.ts";
import type { LedgerObject, TurnScript } from "../../support/objects/ledger-object.ts";
import { delivered } from "../../support/objects/ledger-object.ts";
import type { AskedPrompt } from "../../support/prompts.ts";
import {
  begun,
  destinations,
  ended,
  type LedgerPlan,
  ledgerPlan,
  type Run,
  SETTLED,
} from "./scenario.ts";

/** Long enough to be cancelled. */
const BUSY: TurnScript = { delayMs: 400, answer: { ok: true } };

/** As a step of the workflow asks, repeated until it has a receipt. */
export function request(run: Run, script: Script, rest: Partial<AskedPrompt> = {}): AskedPrompt {
  const [to] = destinations(run, "w");
  return {
    idempotencyKey: "k",
    run: "1",
    workflow: { name: to?.workflow ?? "", id: to?.instance ?? "", stepName: "step" },
    messages: [{ role: "user", parts: [{ type: "text", text: ask(script) }] }],
    answer: { schema: {} },
    ...rest,
  };
}

const REPAIRED = { answer: { schema: {}, repair: 1 } };

const prompt = (object: LedgerObject, run: Run, script: Script, rest?: Partial<AskedPrompt>) =>
  object.prompt(request(run, script, rest));

/** The workflow received the end of the prompt, and its answer is there. */
async function answered(object: LedgerObject, run: Run): Promise<string[]> {
  const { submissionId } = await prompt(object, run, {});
  const end = await object.prompts.check({ kind: "prompt", waitId: submissionId });
  const eventIds = new Set((delivered.get(`${run.id}-w`) ?? []).map(({ id }) => id));
  return [
    ...(end && "output" in end && end.output !== undefined ? [] : ["L7 there is no answer"]),
    ...(eventIds.size === 1 ? [] : [`O2 the workflow received the end under ${eventIds.size} ids`]),
  ];
}

const PROMPTS: Readonly<Record<string, LedgerPlan>> = {
  "a prompt, and its answer": {
    verbs: ["TurnEngine.answer", "PromptKind.open"],
    steps: [(object, run) => prompt(object, run, { delayMs: 5, answer: { ok: true } })],
    soonAfter: /SET status = \?/,
    ends: { k: "completed" },
    also: answered,
  },
  "a prompt, and an answer in parts": {
    verbs: ["TurnEngine.answer"],
    // With the script, which has the answer in it, more than a row takes.
    steps: [(object, run) => prompt(object, run, { delayMs: 5, answer: "x".repeat(1_100_000) })],
    soonAfter: /INTO perdure_values/,
    ends: { k: "completed" },
    also: async (object) => {
      const [found] = await object.submissions.list();
      const answer = String(found?.output ?? "");
      const part = await object.readPrompt(found?.submissionId ?? "", 0);
      return answer.length === 1_100_000 && (part?.parts ?? 0) > 1 ? [] : ["O4 it is not whole"];
    },
  },
  "a prompt of which the wait is over": {
    verbs: ["PromptKind.close"],
    steps: [
      (object, run) => prompt(object, run, BUSY as Script),
      async (object, run) => {
        const { submissionId } = await prompt(object, run, BUSY as Script);
        await begun(object, submissionId);
        await object.expire(submissionId);
      },
    ],
    soonAfter: SETTLED,
    ends: { k: ["aborted", "completed"] },
  },
  "a prompt whose workflow is terminated": {
    verbs: ["Submissions.cancelFor"],
    steps: [
      (object, run) => prompt(object, run, BUSY as Script),
      async ({ submissions }, { id }) => {
        await submissions.cancelFor(
          { workflow: "PROMPT_WORKFLOW", instance: `${id}-w` },
          "it was terminated",
        );
      },
    ],
    soonAfter: SETTLED,
    ends: { k: ["aborted", "completed"] },
  },
  "a prompt whose answer the workflow refuses": {
    verbs: ["PromptKind.refuse"],
    steps: [
      (object, run) => prompt(object, run, { answer: 1 }),
      async (object, run) => {
        const { submissionId } = await prompt(object, run, { answer: 1 });
        await ended(object, submissionId);
        await object.prompts.refuse([submissionId]);
      },
      (object, run) => prompt(object, run, { answer: 1 }, { run: "2" }),
    ],
    soonAfter: /is_refused/,
    also: async ({ submissions }) => {
      const found = (await submissions.list()).map(({ status }) => status).join();
      return found === "completed,completed" ? [] : [`W1 they are ${found}`];
    },
  },
  "a prompt whose answer is repaired for the workflow": {
    verbs: ["PromptKind.open"],
    steps: [
      (object, run) => prompt(object, run, { answer: 1 }, REPAIRED),
      async (object, run) => {
        const { submissionId } = await prompt(object, run, { answer: 1 }, REPAIRED);
        await ended(object, submissionId);
        const { workflow } = request(run, {});
        await object.repair({ submissionId, run: "1", workflow, problem: "it is 1" });
      },
    ],
    soonAfter: /perdure_attempts/,
    also: async ({ submissions }, { id }) => {
      const found = (await submissions.list()).map(
        ({ status, attempts }) => `${status} ${attempts}`,
      );
      const eventIds = new Set((delivered.get(`${id}-w`) ?? []).map((event) => event.id));
      return [
        ...(/^completed [2-9],completed \d$/.test(found.join()) ? [] : [`W4 they are ${found}`]),
        ...(eventIds.size === 2
          ? []
          : [`O2 the workflow received the end under ${eventIds.size} ids`]),
      ];
    },
  },
};

/** A batch of these turns, reported by one event. */
function batch({ id }: Run, scripts: readonly Script[]) {
  const workflow = { name: "PROMPT_WORKFLOW", id: `${id}-w`, stepName: "all" };
  const items = scripts.map((script, index) => ({
    idempotencyKey: `b:${index}`,
    key: String(index),
    messages: [{ role: "user" as const, parts: [{ type: "text" as const, text: ask(script) }] }],
  }));
  const common = { batch: "b", run: "1", workflow, ...REPAIRED, concurrency: 2 };
  return {
    accept: (object: LedgerObject, from = 0, to = items.length) =>
      object.acceptPrompts({ ...common, items: items.slice(from, to) }),
    /** All, in their order: those that are known are found. */
    ids: async (object: LedgerObject) =>
      (await object.acceptPrompts({ ...common, items })).submissionIds,
    wait: (object: LedgerObject, submissionIds: readonly string[], failsFast = false, of = "b") =>
      object.awaitPrompts({ batch: of, workflow, submissionIds, eventType: "over", failsFast }),
  };
}

const THREE: readonly Script[] = [1, 2, 3].map((answer) => ({ delayMs: 60, answer }));
const SLOW: readonly Script[] = [1, 2, 3].map((answer) => ({ delayMs: 400, answer }));
/** Runs whose workflow has nothing to wait for: what it asked came too late. */
const over = new Set<string>();

async function awaits(object: LedgerObject, run: Run, scripts: readonly Script[], fast = false) {
  const all = batch(run, scripts);
  const { isOver } = await all.wait(object, await all.ids(object), fast);
  if (isOver) over.add(run.id);
}

/** W2: the workflow received the end once, or there was nothing to wait for. */
function receivedOnce(_: LedgerObject, { id }: Run): string[] {
  const ids = new Set((delivered.get(`${id}-w`) ?? []).map((one) => one.id));
  const isRight = ids.size === 1 || (ids.size === 0 && over.has(id));
  return isRight ? [] : [`W2 the workflow received the end of its batch under ${ids.size} ids`];
}

const ALL_DONE = { "b:0": "completed", "b:1": "completed", "b:2": "completed" } as const;
const EITHER = ["completed", "aborted"] as const;
const ALL_EITHER = { "b:0": EITHER, "b:1": EITHER, "b:2": EITHER } as const;

const BATCHES: Readonly<Record<string, LedgerPlan>> = {
  "a batch of prompts, in two chunks": {
    verbs: ["BatchKind.open", "BatchKind.check"],
    steps: [
      (object, run) => batch(run, THREE).accept(object, 0, 2),
      (object, run) => batch(run, THREE).accept(object, 2, 3),
      (object, run) => awaits(object, run, THREE),
    ],
    ends: ALL_DONE,
    also: receivedOnce,
  },
  "a batch of which items are repaired": {
    verbs: ["BatchKind.open"],
    steps: [
      (object, run) => batch(run, THREE).accept(object),
      async (object, run) => {
        const all = batch(run, THREE);
        const submissionIds = await all.ids(object);
        for (const id of submissionIds) await ended(object, id);
        const { workflow } = request(run, {});
        const refused = submissionIds
          .slice(1)
          .map((id) => ({ submissionId: id, problem: "wrong" }));
        const repaired = await object.repairPrompts({ batch: "r", run: "1", workflow, refused });
        const ids = repaired.submissionIds.filter((id) => id !== null);
        const { isOver } = await all.wait(object, ids, false, "r");
        if (isOver) over.add(run.id);
      },
    ],
    soonAfter: /perdure_attempts/,
    also: async (object, run) => {
      const found = (await object.submissions.list()).map(({ status }) => status);
      const isRight = found.length === 5 && found.every((status) => status === "completed");
      return [...receivedOnce(object, run), ...(isRight ? [] : [`W4 they are ${found}`])];
    },
  },
  "a batch of which one fails": {
    verbs: ["BatchKind.check"],
    steps: [(object, run) => awaits(object, run, [...SLOW.slice(0, 2), { fail: "no" }], true)],
    soonAfter: SETTLED,
    ends: { "b:0": EITHER, "b:1": EITHER, "b:2": "error" },
    also: receivedOnce,
  },
  "a batch of which the wait is over": {
    verbs: ["BatchKind.close"],
    steps: [
      (object, run) => awaits(object, run, SLOW),
      async (object, run) => {
        const submissionIds = await batch(run, SLOW).ids(object);
        await object.expirePrompts({ batch: "b", submissionIds });
      },
    ],
    soonAfter: /status = 'aborted'/,
    ends: ALL_EITHER,
  },
  "a batch whose workflow is terminated": {
    verbs: ["TurnEngine.cancelBatch"],
    steps: [
      (object, run) => batch(run, SLOW).accept(object),
      async ({ submissions }, { id }) => {
        const of = { workflow: "PROMPT_WORKFLOW", instance: `${id}-w` };
        await submissions.cancelFor(of, "it was terminated");
      },
    ],
    soonAfter: /status = 'aborted'/,
    ends: ALL_EITHER,
  },
};

/** No batch is left behind (W2). */
function noneLeft(plan: LedgerPlan): LedgerPlan {
  return {
    ...plan,
    also: async (object, run) => {
      const left = object.rowsIn("perdure_batches");
      const problems = (await plan.also?.(object, run)) ?? [];
      return left === 0 ? problems : [...problems, `W2 ${left} batches are left`];
    },
  };
}

export const PROMPT_PLANS: Plans = Object.fromEntries([
  ...Object.entries(PROMPTS).map(([name, plan]) => [name, ledgerPlan(plan)] as const),
  ...Object.entries(BATCHES).map(([name, plan]) => [name, ledgerPlan(noneLeft(plan))] as const),
]);
