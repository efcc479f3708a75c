/** The spans of a workflow instance and of its steps, around those of the submissions that its steps wait for. */

import { sumOfDollars } from "../../core/dollars.ts";
import { keyPrefix } from "../../core/steps.ts";
import type { NewSpan, SpanSource, Spans } from "../../engine/operated/spans.ts";
import { type PromptingStep, promptingStepOf } from "../../submissions/inspection.ts";
import { addSubmission, linkTo } from "../../submissions/operated/spans.ts";
import { withKeyPrefix } from "../../submissions/store/keyed.ts";
import {
  promptsOfWorkflow,
  type TracedSubmission,
  tracedSubmission,
} from "../../submissions/store/traced.ts";
import type { TraceSpan, WorkflowStep } from "../protocol.ts";
import { SPANS } from "../spans.generated.ts";

const MAX_STEPS = 200;
/** How many refused answers before a prompt are followed to the first one. */
const MAX_REPAIRS = 10;

type Instance = Pick<PromptingStep, "name" | "id">;

/** The row of an instance in the tracking of agents. */
export type TrackedWorkflow = {
  readonly status: string;
  readonly createdAt: Date;
  readonly completedAt: Date | null;
  readonly error: { readonly name: string; readonly message: string } | null;
};

/** A step, with the submissions that it waits for, oldest first. */
type Step = {
  readonly key: string;
  readonly span: NewSpan;
  readonly prompts: readonly TracedSubmission[];
};

const SOURCES = Object.values<SpanSource>(SPANS);

/** Adds the spans of a submission, and what other modules have of it. */
export function addWithOthers(
  sql: SqlStorage,
  spans: Spans,
  submission: TracedSubmission,
  parentSpanId: string | undefined,
): void {
  const all = SOURCES.flatMap(({ below }) => below?.(sql, submission.submissionId) ?? []);
  addSubmission(sql, spans, submission, parentSpanId, all);
}

/** Adds a workflow instance with all of its steps. */
export function addWorkflow(
  sql: SqlStorage,
  spans: Spans,
  submission: TracedSubmission,
  of: PromptingStep,
  tracked: TrackedWorkflow | undefined,
): void {
  const instance = { workflow: of.name, instance: of.id };
  const found = promptsOfWorkflow(sql, instance, submission.seq, MAX_STEPS);
  const prompts = found.some(({ seq }) => seq === submission.seq) ? found : [...found, submission];
  const steps = [...promptSteps(sql, prompts), ...waitSteps(sql, instance)].sort(byStart);
  // The one that was asked for comes first, so that it is whole.
  const all = steps.flatMap((step) => step.prompts);
  const others = all.filter(({ seq }) => seq !== submission.seq);
  const root = addRoot(spans, of, steps, tracked);
  const parentOf = addSteps(spans, steps, steps, root);
  for (const prompt of [submission, ...others]) {
    addWithOthers(sql, spans, prompt, parentOf(prompt));
  }
}

/** Adds the step that waits for the submission. The end of the workflow sends the root, and the other steps. */
export function addStepOf(
  sql: SqlStorage,
  spans: Spans,
  submission: TracedSubmission,
  of: PromptingStep,
): void {
  const own = promptSteps(sql, [submission]);
  const all = [...stepsOfInstance(sql, of), ...own];
  const parentOf = addSteps(spans, own, all, spans.idOf(rootKey(of)));
  addWithOthers(sql, spans, submission, parentOf(submission));
}

/**
 * Adds what no submission sends: the root of a workflow that has ended, and its steps without a prompt.
 *
 * @param platform the steps that do not wait at the agent
 */
export function addEnd(
  sql: SqlStorage,
  spans: Spans,
  of: Instance,
  tracked: TrackedWorkflow,
  platform: readonly WorkflowStep[],
): void {
  const all = [...stepsOfInstance(sql, of), ...platform.map(platformStep)];
  const root = addRoot(spans, of, all, tracked);
  const others = all.filter(({ prompts }) => prompts.length === 0);
  addSteps(spans, others.sort(byStart), all, root);
}

const byStart = ({ span: one }: Step, { span: other }: Step) => one.startedAt - other.startedAt;

/** Prompts and waits of an instance. The items of batches are left out. */
function stepsOfInstance(sql: SqlStorage, { name, id }: Instance): Step[] {
  const prefix = keyPrefix("prompt", { workflowName: name, workflowId: id });
  const prompts = withKeyPrefix(sql, prefix, MAX_STEPS).flatMap(
    ({ submissionId }) => tracedSubmission(sql, submissionId) ?? [],
  );
  return [...promptSteps(sql, prompts), ...waitSteps(sql, { workflow: name, instance: id })];
}

export const rootKey = ({ name, id }: Instance) => `workflow:${name}:${id}`;

function addRoot(
  spans: Spans,
  of: Instance,
  steps: readonly Step[],
  tracked: TrackedWorkflow | undefined,
): string | undefined {
  return spans.add(rootKey(of), workflowSpan(of, steps, tracked));
}

/**
 * @param all the steps that links lead to
 * @returns the span that a submission belongs below
 */
function addSteps(
  spans: Spans,
  steps: readonly Step[],
  all: readonly Step[],
  root: string | undefined,
): (prompt: TracedSubmission) => string | undefined {
  const ids = new Map<number, string | undefined>();
  for (const step of steps) {
    const links = linksOf(spans, step, all);
    const id = spans.add(step.key, { ...step.span, parentSpanId: root, links });
    for (const prompt of step.prompts) ids.set(prompt.seq, id);
  }
  return ({ seq }) => ids.get(seq) ?? root;
}

/** Infinity for one that runs. */
const endOf = ({ span }: Step) => span.endedAt ?? Number.POSITIVE_INFINITY;

function workflowSpan(
  { name, id }: Instance,
  steps: readonly Step[],
  tracked: TrackedWorkflow | undefined,
): NewSpan {
  const starts = steps.map(({ span }) => span.startedAt);
  const ends = steps.map(({ span }) => span.endedAt ?? 0);
  // Tracking has whole seconds.
  const startedAt = Math.min(...starts, tracked?.createdAt.getTime() ?? Number.POSITIVE_INFINITY);
  const isOpen = tracked
    ? tracked.completedAt === null
    : steps.some(({ span }) => span.endedAt === undefined);
  const endedAt = Math.max(...ends, tracked?.completedAt?.getTime() ?? 0);
  return {
    name: `perdure.workflow ${name}`,
    kind: "workflow",
    startedAt,
    endedAt: isOpen ? undefined : endedAt,
    status: tracked ? (STATUSES[tracked.status] ?? "unset") : "unset",
    error: tracked?.error?.message,
    attributes: {
      "perdure.workflow.name": name,
      "perdure.workflow.id": id,
      "perdure.workflow.status": tracked?.status,
      "gen_ai.usage.cost": costOf(steps.flatMap(({ prompts }) => prompts)),
      // Its end is that of its last step, as far as the agent knows.
      "perdure.workflow.untracked": tracked ? undefined : true,
    },
  };
}

const STATUSES: Readonly<Record<string, TraceSpan["status"]>> = {
  complete: "ok",
  errored: "error",
};

/** One step for a prompt with its repairs, and one for all items of a batch. */
function promptSteps(sql: SqlStorage, prompts: readonly TracedSubmission[]): Step[] {
  const groups = new Map<string, TracedSubmission[]>();
  for (const prompt of prompts) {
    const key = stepKeyOf(sql, prompt);
    groups.set(key, [...(groups.get(key) ?? []), prompt]);
  }
  return [...groups].map(([key, all]) => {
    const last = all.at(-1) as TracedSubmission;
    const stepName = stepNameOf(last);
    const isOpen = all.some(({ settledAt }) => settledAt === undefined);
    const isFailed = last.status === "error";
    const span: NewSpan = {
      name: `perdure.step ${stepName}`,
      kind: "step",
      startedAt: Math.min(...all.map(({ createdAt }) => createdAt)),
      endedAt: isOpen ? undefined : Math.max(...all.map(({ settledAt = 0 }) => settledAt)),
      status: isFailed ? "error" : last.status === "completed" ? "ok" : "unset",
      error: isFailed ? (last.error ?? last.errorName) : undefined,
      attributes: {
        "perdure.step.name": stepName,
        "perdure.step.kind": last.batch === undefined ? "prompt" : "batch",
        "perdure.step.repairs": all.filter(isRepair).length || undefined,
        "gen_ai.usage.cost": costOf(all),
      },
    };
    return { key, span, prompts: all };
  });
}

/** A prompt whose answer was refused is asked again by another submission, which names the earlier one. */
function stepKeyOf(sql: SqlStorage, prompt: TracedSubmission): string {
  if (prompt.batch !== undefined) return `step:batch:${stepNameOf(prompt)}`;
  let first = prompt;
  for (let count = 0; count < MAX_REPAIRS; count++) {
    const { repairs } = first.metadata ?? {};
    const earlier = typeof repairs === "string" ? tracedSubmission(sql, repairs) : undefined;
    if (!earlier) break;
    first = earlier;
  }
  return `step:${first.submissionId}`;
}

function isRepair({ metadata }: TracedSubmission): boolean {
  return typeof metadata?.repairs === "string";
}

/** In dollars. A repair goes on with the usage of what it repairs. */
function costOf(prompts: readonly TracedSubmission[]): number | undefined {
  const repaired = new Set(prompts.map(({ metadata }) => metadata?.repairs));
  const last = prompts.filter(({ submissionId }) => !repaired.has(submissionId));
  return sumOfDollars(last.map(({ usage }) => usage?.cost));
}

function stepNameOf(prompt: TracedSubmission): string {
  return promptingStepOf(prompt)?.stepName ?? "";
}

/** The steps that wait for a row of a module. */
function waitSteps(sql: SqlStorage, of: { workflow: string; instance: string }): Step[] {
  const all = SOURCES.flatMap(({ steps }) => steps?.(sql, of, MAX_STEPS) ?? []);
  return all.map(([key, span]) => ({ key, span, prompts: [] }));
}

/** A step of which only the platform knows. */
function platformStep({ name, count = 1, kind, status, ...rest }: WorkflowStep): Step {
  const isFailed = status === "failed" || status === "expired";
  const span: NewSpan = {
    ...rest,
    name: `perdure.step ${name}`,
    kind: "step",
    status: isFailed ? "error" : status === "completed" ? "ok" : "unset",
    attributes: { "perdure.step.name": name, "perdure.step.kind": kind },
  };
  return { key: `step:${kind}:${name}:${count}`, span, prompts: [] };
}

/** From a step to what ended before it: the last submission of the step before, or that step where it is no prompt. */
function linksOf(spans: Spans, { span }: Step, steps: readonly Step[]): TraceSpan["links"] {
  const before = steps.filter((step) => endOf(step) <= span.startedAt);
  const last = before.toSorted((a, b) => endOf(a) - endOf(b)).at(-1);
  if (!last || last.span === span) return undefined;
  const prompt = last.prompts.at(-1);
  return [prompt ? linkTo(prompt) : { traceId: spans.traceId, spanId: spans.idOf(last.key) }];
}
