/**
 * The kind `prompt`, for `step.prompt()`: a submission that must be answered. The submission is the wait, and its id the
 * wait's id, so that a prompt costs no row of its own.
 */

import type { UIMessage } from "ai";
import * as z from "zod";
import { list, readOptions, text } from "../../../core/options/option-schemas.ts";
import type { Part } from "../../../core/text.ts";
import type {
  InstanceOf,
  WorkflowDestination,
} from "../../../outbox/destinations/workflow-event.ts";
import { invalidSubmission } from "../../../submissions/errors.ts";
import type { PromptingStep } from "../../../submissions/inspection.ts";
import { shortEndOf } from "../../../submissions/inspection.ts";
import { isTerminal } from "../../../submissions/states.ts";
import type { Submission } from "../../../submissions/store/rows.ts";
import type { Submissions } from "../../../submissions/submissions.ts";
import type {
  AnswerSpec,
  OwnerOptions,
  SubmitMessagesOptions,
} from "../../../submissions/submit-options.ts";
import { MAIN } from "../../../submissions/threads.ts";
import type { IntakeResult } from "../../../submissions/turns/turn-engine.ts";
import type { PromptEnd } from "../../../submissions/types.ts";
import type { WaitKind, WaitReceipt, WaitRef, WaitRequest } from "../protocol.ts";
import { destinationOf } from "../reports.ts";
import type { KindUses } from "../waits.ts";

/** `errorName` of the end of a prompt whose submission was deleted. */
export const NOT_FOUND = "SubmissionNotFoundError";

/** The request of `step.prompt()`. */
export type PromptRequest = Readonly<Pick<SubmitMessagesOptions, "budget" | "retry">> &
  Readonly<OwnerOptions> & {
    /** The question; a message without an id gets one. */
    readonly messages: readonly PromptMessage[];
    readonly answer: AnswerSpec;
    /** The conversation that the turn is part of; `"main"` where it is left out. */
    readonly thread?: string | undefined;
    /** The key of Think's own `step.prompt()`; unset where a submission of Think's must not answer it. */
    readonly thinkKey?: string | undefined;
  };

export type PromptMessage = Omit<UIMessage, "id"> & { readonly id?: string };

/** The problem of an answer that the workflow refuses, for the model. */
export type AnswerProblem = { readonly problem: string };

/** A prompt that Think itself accepted: Think's event ends it. */
export type ThinkPromptReceipt = {
  readonly submissionId: string;
  /** Whether Think has sent its event, or is about to. */
  readonly hasEnded: boolean;
};

export class PromptKind implements WaitKind {
  constructor(
    private readonly submissions: Submissions,
    private readonly ownerOfRun: KindUses["ownerOfRun"],
  ) {}

  /** Accepts a prompt, or finds the one that was accepted before. Null where a refused answer has no repair left. */
  async open(
    asked: WaitRequest<PromptRequest | AnswerProblem>,
  ): Promise<WaitReceipt<PromptEnd> | ThinkPromptReceipt | null> {
    const { idempotencyKey, run, workflow, request, refuses = "" } = asked;
    const proof = crypto.randomUUID();
    const notify = (id: string) => [destinationOf(workflow, eventTypeOf(id), proof)];
    if ("problem" in request) {
      const repair = { run, error: request.problem, notify };
      const [taken] = await this.submissions.accept([{ submissionId: refuses, repair }]);
      return taken ? this.#receiptOf(taken, proof) : null;
    }
    const { messages, thinkKey: _, thread = MAIN, ...settings } = request;
    const owner = asked.owner ?? (await this.ownerOfRun(workflow));
    const own = { ...withOwner(settings, owner, workflow), thread };
    const options = { ...own, idempotencyKey, run, notify };
    const [taken] = await this.submissions.accept([{ messages: withIds(messages), options }]);
    return this.#receiptOf(taken as IntakeResult, proof);
  }

  check({ waitId }: WaitRef): Promise<PromptEnd | null> {
    return this.#endOf(waitId, false);
  }

  async read({ waitId }: WaitRef, part: number): Promise<Part | null> {
    const found = await this.#find(waitId);
    return (found?.status === "completed" && found.output?.part(part)) || null;
  }

  async refuse(submissionIds: readonly string[]): Promise<void> {
    await this.submissions.ready();
    this.submissions.store.refuse(submissionIds);
  }

  close({ waitId }: WaitRef): Promise<PromptEnd | null> {
    return this.#endOf(waitId, true);
  }

  cancelFor(of: InstanceOf, reason: string): Promise<void> {
    return this.submissions.cancelFor(of, reason);
  }

  async #receiptOf(
    { submission: { submissionId, status }, accepted }: IntakeResult,
    drawn: string,
  ): Promise<WaitReceipt<PromptEnd>> {
    const eventType = eventTypeOf(submissionId);
    const receipt = { waitId: submissionId, eventType };
    const found = accepted && !isTerminal(status) ? undefined : await this.#find(submissionId);
    const to = found?.notify.find((one) => one.kind === "workflow" && one.eventType === eventType);
    const proof = accepted ? drawn : (to as WorkflowDestination | undefined)?.proof;
    const end = found && isTerminal(found.status) && shortEndOf(found);
    return { ...receipt, proof, ...(end && { end }) };
  }

  /** A submission that was deleted never ends, and must not run again unless the workflow is restarted: that is an end, too. */
  async #endOf(submissionId: string, cancel: boolean): Promise<PromptEnd | null> {
    const found = await this.#find(submissionId);
    if (!found) return notFound(submissionId);
    if (isTerminal(found.status)) return shortEndOf(found);
    if (!cancel) return null;
    const reason = "Workflow prompt wait timed out";
    const { outcome } = await this.submissions.cancel(submissionId, reason);
    return outcome === "already_terminal" ? this.#endOf(submissionId, false) : null;
  }

  async #find(submissionId: string): Promise<Submission | undefined> {
    await this.submissions.ready();
    return this.submissions.store.find(submissionId);
  }
}

/** Options of a prompt with those of its run: its own come first, also of each key of `metadata`. */
export function withOwner<Options extends OwnerOptions>(
  options: Options,
  { metadata, ...owner }: OwnerOptions,
  workflow: PromptingStep,
): Options {
  return { ...owner, ...options, metadata: { ...metadata, ...options.metadata, workflow } };
}

/** The event that reports the end of this submission, and of no other. */
function eventTypeOf(submissionId: string): string {
  return `perdure-prompt-${submissionId}`;
}

const MESSAGES = list(
  z.looseObject({ id: text().nullish() }, { error: "expected an object with role and parts" }),
);

export function withIds(messages: readonly PromptMessage[]): UIMessage[] {
  readOptions(MESSAGES, messages, "messages", invalidSubmission);
  return messages.map((message) => ({ ...message, id: message.id ?? crypto.randomUUID() }));
}

function notFound(submissionId: string): PromptEnd {
  const error =
    `The agent no longer has the submission "${submissionId}": it was deleted, or the agent was destroyed. ` +
    "The prompt is not run again. Restart the workflow to ask again.";
  return { submissionId, status: "error", error, errorName: NOT_FOUND, attempts: 0 };
}

export const KINDS = {
  prompt: ({ submissions, ownerOfRun }: Pick<KindUses, "submissions" | "ownerOfRun">) =>
    new PromptKind(submissions, ownerOfRun),
};
