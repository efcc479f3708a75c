/**
 * `step.prompt()`: submit, wait, validate. Each part is a step of the
 * platform, so that a replay finds it done; the ledger answers whatever the
 * platform has forgotten (W1, W2), or has no room for (O4).
 */

import { preview } from "../../core/json.ts";
import type { AnySchema } from "../../core/schema.ts";
import type { PromptRepair } from "../../submissions/prompts.ts";
import type {
  AnswerPart,
  PromptEnd,
  PromptReceipt,
  PromptRequest,
  ThinkPromptReceipt,
} from "../../submissions/types.ts";
import { compensated } from "../compensation.ts";
import { partName, type StepIdentity, type StepPart, stepKey } from "../names.ts";
import { durably, plain, type StepCall } from "../step-call.ts";
import { endTold, timed, type WaitNames } from "../wait.ts";
import { answerOf, type PromptResult, refusalOf, wholeEnd } from "./answer.ts";
import { namingStep, ThinkPromptTimeoutError, ThinkPromptValidationError } from "./errors.ts";
import { type CheckedPrompt, checkedPrompt, type ThinkPromptOptions } from "./options.ts";
import { thinkKeyOf, thinkPromptEnd } from "./think-prompt.ts";

/** What an agent offers to `step.prompt()`. */
export interface PromptableAgent {
  acceptPrompt(request: PromptRequest): Promise<PromptReceipt | ThinkPromptReceipt>;
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
    throw namingStep(error, name, `step.prompt(${preview(name)})`);
  });
}

async function run<Schema extends AnySchema | undefined>(
  given: StepCall<PromptableAgent>,
  options: ThinkPromptOptions<Schema>,
): Promise<PromptResult<Schema>> {
  const { step, workflowName, workflowId, name } = given;
  const checked = checkedPrompt(name, options);
  const identity = { kind: "prompt", stepName: name, key: options.key } as const;
  const call = { ...given, identity };
  given.used.use("prompt", name, options.key);
  const request = {
    ...checked.request,
    idempotencyKey: await stepKey({ workflowName, workflowId, ...identity }),
    thinkKey: await thinkKeyOf({ workflowName, workflowId, ...identity }),
    run: await given.run(),
    workflow: { name: workflowName, id: workflowId, stepName: name },
  };
  const asked = { ...call, ...checked, request };
  const answer = await answered(asked, await submitted(asked), options.output);
  return compensated(step, () => partName(identity, "done"), answer, options.rollback);
}

type Receipt = PromptReceipt & { readonly at: number };
/** A prompt that Think has accepted, and that has ended: it is not repaired. */
type ThinkEnd = { readonly end: PromptEnd; readonly at: number };
/** A prompt that was submitted. */
type Asked = PromptCall & CheckedPrompt & { readonly request: PromptRequest };

/** The answer. What the schema refuses goes back to the model, as often as `repair` says (W4). */
async function answered<Schema extends AnySchema | undefined>(
  asked: Asked,
  first: Receipt | ThinkEnd,
  schema: Schema,
): Promise<PromptResult<Schema>> {
  const { step, agent, identity, timeoutMs } = asked;
  const repair = "eventType" in first ? (asked.request.answer.repair ?? 0) : 0;
  const refused: string[] = [];
  let receipt = first;
  for (let round = 0; ; round++) {
    const nameOf: NameOf = (part) =>
      partName(identity, round === 0 ? part : `repair-${round}-${part}`);
    // The time is that of all rounds together.
    const left = timeoutMs - (receipt.at - first.at);
    const end =
      "eventType" in receipt
        ? (receipt.end ?? (await waitForEnd(asked, nameOf, { ...receipt, left })))
        : receipt.end;
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

/** Submits the prompt, or finds it submitted: by this run, by an earlier one, or by Think, whose prompt is waited for. */
async function submitted(asked: Asked): Promise<Receipt | ThinkEnd> {
  const { step, agent, identity, request, workflowName, workflowId } = asked;
  const { timeoutMs, cancelOnTimeout } = asked;
  const nameOf = (part: StepPart) => partName(identity, part);
  const submit = async (part: "submit" | "resubmit", request: PromptRequest) =>
    durably(step, await nameOf(part), async () => timed((await agent()).acceptPrompt(request)));
  const given = await submit("submit", request);
  if ("eventType" in given) return given;
  const { submissionId, at } = given;
  const names = { ...identity, workflowName, workflowId };
  const prompt = { submissionId, nameOf, identity: names, timeoutMs, cancelOnTimeout };
  // Think's own receipt has nothing but the id.
  const end = await thinkPromptEnd(asked, prompt, "hasEnded" in given ? given : undefined);
  if (end) return { end, at };
  const again = await submit("resubmit", { ...request, thinkKey: undefined });
  if ("eventType" in again) return again;
  throw new Error(`The agent has not accepted "${asked.name}" again`);
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
