/**
 * `step.prompt()`: submit, wait, validate. Each part is a step of the
 * platform, so that a replay finds it done; the ledger answers whatever the
 * platform has forgotten (W1, W2), or has no room for (O4).
 */

import { shown } from "../../core/json.ts";
import type { AnySchema } from "../../core/schema.ts";
import type { PromptRepair } from "../../submissions/prompts.ts";
import type {
  AnswerPart,
  PromptEnd,
  PromptReceipt,
  PromptRequest,
} from "../../submissions/types.ts";
import { compensated } from "../compensation.ts";
import { partName, type StepIdentity, stepKey } from "../names.ts";
import { durably, plain, type StepCall } from "../step-call.ts";
import { endTold, timed, type WaitNames } from "../wait.ts";
import { answerOf, type PromptResult, refusalOf, wholeEnd } from "./answer.ts";
import { namingStep, ThinkPromptTimeoutError, ThinkPromptValidationError } from "./errors.ts";
import { type CheckedPrompt, checkedPrompt, type ThinkPromptOptions } from "./options.ts";

/** What an agent offers to `step.prompt()`. */
export interface PromptableAgent {
  acceptPrompt(request: PromptRequest): Promise<PromptReceipt>;
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<PromptEnd | null>;
  readPrompt(submissionId: string, part: number): Promise<AnswerPart | null>;
  repairPrompt(repair: PromptRepair): Promise<PromptReceipt | null>;
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
  const submit = async () => timed((await agent()).acceptPrompt(request));
  const receipt = await durably(step, await partName(identity, "submit"), submit);
  const answer = await answered({ ...call, ...checked, request }, receipt, options.output);
  return compensated(step, () => partName(identity, "done"), answer, options.rollback);
}

type Receipt = PromptReceipt & { readonly at: number };
/** A prompt that was submitted. */
type Asked = PromptCall & CheckedPrompt & { readonly request: PromptRequest };

/** The answer. What the schema refuses goes back to the model, as often as `repair` says (W4). */
async function answered<Schema extends AnySchema | undefined>(
  asked: Asked,
  first: Receipt,
  schema: Schema,
): Promise<PromptResult<Schema>> {
  const { step, agent, identity, timeoutMs } = asked;
  const { repair = 0 } = asked.request.answer;
  const refused: string[] = [];
  let receipt = first;
  for (let round = 0; ; round++) {
    const nameOf: NameOf = (part) =>
      partName(identity, round === 0 ? part : `repair-${round}-${part}`);
    // The time is that of all rounds together.
    const left = timeoutMs - (receipt.at - first.at);
    const end = receipt.end ?? (await waitForEnd(asked, nameOf, { ...receipt, left }));
    const whole = await wholeEnd(asked, nameOf, end);
    try {
      return await answerOf(whole, schema);
    } catch (error) {
      const problem = refusalOf(whole, error);
      if (problem !== undefined) refused.push(whole.submissionId);
      const next =
        problem !== undefined && round < repair
          ? await repaired(asked, round + 1, { submissionId: whole.submissionId, error: problem })
          : undefined;
      if (next === undefined) {
        const isWrong = error instanceof ThinkPromptValidationError && refused.length > 0;
        const refuse = async () => (await agent()).refusePrompts(refused);
        if (isWrong) await durably(step, await partName(identity, "refuse"), refuse);
        throw error;
      }
      receipt = next;
    }
  }
}

type NameOf = (part: PromptPart) => Promise<string>;
type PromptPart = Parameters<WaitNames>[0] | `answer-${number}`;

/** Asks the agent for a repair; undefined where none is left, because the model has used them itself. */
async function repaired(
  { step, agent, identity, request: { run, workflow } }: Asked,
  round: number,
  refused: Pick<PromptRepair, "submissionId" | "error">,
): Promise<Receipt | undefined> {
  const name = await partName(identity, `repair-${round}-submit`);
  const receipt = await durably(step, name, async () => ({
    receipt: await (await agent()).repairPrompt({ ...refused, run, workflow }).then(plain),
    at: Date.now(),
  }));
  return receipt.receipt ? { ...receipt.receipt, at: receipt.at } : undefined;
}

async function waitForEnd(
  { step, agent, timeoutMs, cancelOnTimeout }: Asked,
  nameOf: WaitNames,
  { submissionId, eventType, proof, at, left }: Receipt & { readonly left: number },
): Promise<PromptEnd> {
  const ask = async (isOver: boolean) =>
    (await agent()).expirePrompt(submissionId, { cancel: isOver && cancelOnTimeout });
  const wait = { type: eventType, proof, timeoutMs: left, startedAt: at };
  const end = await endTold<PromptEnd>(step, nameOf, wait, ask);
  if (end) return end;
  throw new ThinkPromptTimeoutError(submissionId, undefined, timeoutMs);
}
