/** What the steps of a run have asked of their agent, and what came of it, from the rows of the agent. */

import { promptingStepOf, shortEndOf } from "../../../submissions/inspection.ts";
import { isTerminal } from "../../../submissions/states.ts";
import type { Submission } from "../../../submissions/store/rows.ts";
import { publicThreadOf } from "../../../submissions/threads.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { Wait } from "../../../workflow/waits/protocol.ts";
import type { AskedStep, PlatformStep } from "../types.ts";
import { type Budget, MOST_STEPS } from "./budget.ts";

/** Found by the receipts that the platform has recorded: an answer that the step refused has no key any more. */
export async function askedSteps(
  { submissions, waits }: Pick<Kernel, "submissions" | "waits">,
  platform: readonly PlatformStep[],
  budget: Budget,
): Promise<readonly AskedStep[]> {
  await submissions.ready();
  await waits.ready();
  const ids = [...new Set(platform.flatMap(receiptsIn))];
  if (ids.length > MOST_STEPS) budget.cut();
  const asked: AskedStep[] = [];
  for (const id of ids.slice(0, MOST_STEPS)) {
    const step = ofSubmission(submissions.store.find(id), budget) ?? ofWait(waits.find(id));
    if (!step) continue;
    const { request, end } = step;
    asked.push({ ...step, request: budget.taken(request) ?? null, end: budget.taken(end) });
  }
  return asked;
}

/** Ids of waits and submissions in what the agent has answered to a step that asks it. Other ids are found nowhere. */
function receiptsIn({ output }: PlatformStep): string[] {
  const { waitId, submissionIds = waitId } = Object(output) as Readonly<Record<string, unknown>>;
  return [submissionIds].flat().filter((id) => typeof id === "string");
}

/** A step whose request and end are still to be made JSON, if they fit. */
type Found = Omit<AskedStep, "request" | "end"> & {
  readonly request: unknown;
  readonly end: unknown;
};

function ofWait(wait: Wait | undefined): Found | undefined {
  if (!wait) return undefined;
  const { waitId, kind, workflow, createdAt: startedAt, status, settledAt, result, request } = wait;
  const end = settledAt && { waitId, status, settledAt, result };
  return { kind, step: workflow.stepName, waitId, startedAt, request, end };
}

function ofSubmission(submission: Submission | undefined, budget: Budget): Found | undefined {
  const step = submission && promptingStepOf(submission)?.stepName;
  if (!submission || !step) return undefined;
  const { submissionId: waitId, createdAt: startedAt, batch, answer = {}, thread } = submission;
  const request = { answer, thread: publicThreadOf(thread) };
  const end = isTerminal(submission.status) && wholeEnd(submission, budget);
  return {
    kind: batch ? "batch" : "prompt",
    step,
    waitId,
    startedAt,
    request,
    end: end || undefined,
  };
}

/** With a large answer, if that fits. */
function wholeEnd(submission: Submission, budget: Budget): object {
  const end = shortEndOf(submission);
  if (!("reference" in end) || end.reference.bytes > budget.left) return end;
  const { reference: _, ...rest } = end;
  return { ...rest, output: submission.output?.read() };
}
