/**
 * Think with durable submissions: the drop-in base class. Its layers have the
 * verbs of one room each; this one has what its workflows ask of it.
 */

import {
  type AnswerPart,
  acceptPrompt,
  expirePrompt,
  type PromptEnd,
  type PromptReceipt,
  type PromptRequest,
  readPrompt,
} from "../../submissions/index.ts";
import { ROOMS } from "./think-rooms.ts";
import { ThinkSubmissions } from "./think-submissions.ts";

/**
 * A Think agent whose submitted turns survive crashes, deploys and evictions,
 * and whose workflows can wait for them with `step.prompt()` of
 * `perdure/workflow`. Extend it where you extended `Think`.
 */
export class DurableThink<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkSubmissions<Env, State, Props> {
  /** For `step.prompt()`: accepts a prompt, or finds the one accepted before (W1). */
  acceptPrompt(request: PromptRequest): Promise<PromptReceipt> {
    return acceptPrompt(this[ROOMS].submissions, request);
  }

  /** For `step.prompt()`: the end of a prompt whose time is over, if it has one (W2). */
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<PromptEnd | null> {
    return expirePrompt(this[ROOMS].submissions, submissionId, options);
  }

  /** For `step.prompt()`: a part of an answer that was told by a reference, or null where there is none (O4). */
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null> {
    return readPrompt(this[ROOMS].submissions, submissionId, part);
  }

  /** Terminates a workflow, and cancels the turns that it waits for (W5). */
  override async terminateWorkflow(workflowId: string): Promise<void> {
    await super.terminateWorkflow(workflowId);
    await this[ROOMS].submissions.cancelFor(
      workflowId,
      "The workflow that waited for it was terminated",
    );
  }
}
