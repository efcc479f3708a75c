/**
 * `step.prompt()`: submit, wait, validate. Each part is a step of the
 * platform, so that a replay finds it done; the ledger answers whatever the
 * platform has forgotten (W1, W2), or has no room for (O4).
 */

import { shown } from "../../core/json.ts";
import type { AnySchema } from "../../core/schema.ts";
import type {
  AnswerPart,
  PromptEnd,
  PromptReceipt,
  PromptRequest,
} from "../../submissions/types.ts";
import { compensated } from "../compensation.ts";
import { partName, type StepIdentity, type StepPart, stepKey } from "../names.ts";
import { durably, type StepCall } from "../step-call.ts";
import { endTold, timed } from "../wait.ts";
import { answerOf, isRefusedAnswer, type PromptResult, wholeEnd } from "./answer.ts";
import { namingStep, ThinkPromptTimeoutError } from "./errors.ts";
import { type CheckedPrompt, checkedPrompt, type ThinkPromptOptions } from "./options.ts";

/** What an agent offers to `step.prompt()`. */
export interface PromptableAgent {
  acceptPrompt(request: PromptRequest): Promise<PromptReceipt>;
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<PromptEnd | null>;
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null>;
  refusePrompts(submissionIds: readonly string[]): Promise<void>;
}

/** One prompt of one run of a workflow. */
type PromptCall = StepCall<PromptableAgent> & { readonly identity: StepIdentity };

/** Runs the prompt to its answer, or throws how it failed. */
export function runPrompt<Schema extends AnySchema | undefined>(
  given: StepCall<PromptableAgent>,
  options: ThinkPromptOptions<Schema>,
): Promise<PromptResult<Schema>> {
  const { name } = given;
  return run(given, options).catch((error: unknown) => {
    throw namingStep(error, name, `step.prompt(${shown(name)})`);
  });
}

async function run<Schema extends AnySchema | undefined>(
  given: StepCall<PromptableAgent>,
  options: ThinkPromptOptions<Schema>,
): Promise<PromptResult<Schema>> {
  const { step, agent, workflowName, workflowId, name } = given;
  const checked = checkedPrompt(name, options);
  const identity = { kind: "prompt", stepName: name, key: options.key } as const;
  const call = { ...given, identity };
  given.used.use("prompt", name, options.key);
  const request = {
    ...checked.request,
    idempotencyKey: await stepKey({ workflowName, workflowId, ...identity }),
    run: await given.run(),
    workflow: { name: workflowName, id: workflowId, stepName: name },
  };
  const receipt = await durably(step, await partName(identity, "submit"), async () =>
    timed((await agent()).acceptPrompt(request)),
  );
  const end = receipt.end ?? (await waitForEnd(call, checked, receipt));
  const nameOf = (part: StepPart) => partName(identity, part);
  const whole = await wholeEnd(call, nameOf, end);
  const answer = await answerOf(whole, options.output).catch(async (error: unknown) => {
    if (isRefusedAnswer(whole, error)) {
      const { submissionId } = whole;
      const refuse = async () => (await agent()).refusePrompts([submissionId]);
      await durably(step, await nameOf("refuse"), refuse);
    }
    throw error;
  });
  return compensated(step, () => nameOf("done"), answer, options.rollback);
}

async function waitForEnd(
  { step, agent, identity }: PromptCall,
  { timeoutMs, cancelOnTimeout }: CheckedPrompt,
  { submissionId, eventType, proof, at }: PromptReceipt & { at: number },
): Promise<PromptEnd> {
  const ask = async (isOver: boolean) =>
    (await agent()).expirePrompt(submissionId, { cancel: isOver && cancelOnTimeout });
  const nameOf = (part: StepPart) => partName(identity, part);
  const wait = { type: eventType, proof, timeoutMs, startedAt: at };
  const end = await endTold<PromptEnd>(step, nameOf, wait, ask);
  if (end) return end;
  throw new ThinkPromptTimeoutError(submissionId, undefined, timeoutMs);
}
