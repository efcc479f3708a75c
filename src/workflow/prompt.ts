/** `step.prompt()`: asks the agent, waits for the end, and validates the answer. Each part is a step of the platform. */

import { preview } from "../core/json.ts";
import type { AnySchema } from "../core/schema.ts";
import type { PromptEnd } from "../submissions/types.ts";
import type { ThinkPromptReceipt } from "../waits/kinds/prompt.ts";
import type { WaitReceipt } from "../waits/protocol.ts";
import { namingStep, ThinkPromptTimeoutError, ThinkPromptValidationError } from "./errors.ts";
import { partName } from "./names.ts";
import { answerOf, type PromptResult, refusalOf, wholeEnd } from "./prompt-answer.ts";
import { checkedPrompt, type ThinkPromptOptions } from "./prompt-options.ts";
import { compensated, type StepCall } from "./step-call.ts";
import { thinkKeyOf, thinkPromptEnd } from "./think-prompt.ts";
import { namesOf, openWait, refuseWait, type Timed, type WaitAsk, waitForEnd } from "./wait.ts";

/** Runs the prompt to its answer, or throws how it failed. */
export function runPrompt<Schema extends AnySchema | undefined>(
  call: StepCall,
  options: ThinkPromptOptions<Schema>,
): Promise<PromptResult<Schema>> {
  const { name } = call;
  return run(call, options).catch((error: unknown) => {
    throw namingStep(error, name, `step.prompt(${preview(name)})`);
  });
}

async function run<Schema extends AnySchema | undefined>(
  call: StepCall,
  options: ThinkPromptOptions<Schema>,
): Promise<PromptResult<Schema>> {
  const { step, workflowName, workflowId, name } = call;
  const { request, timeoutMs, cancelOnTimeout } = checkedPrompt(name, options);
  const { key, output, rollback } = options;
  call.used.use("prompt", name, key);
  const identity = { kind: "prompt", stepName: name, key } as const;
  const thinkKey = thinkKeyOf({ workflowName, workflowId, ...identity });
  const ask = {
    kind: "prompt",
    key,
    request: { ...request, thinkKey },
    timeoutMs,
    closing: cancelOnTimeout ? ({ status: "expired", result: null } as const) : undefined,
  } as const;
  const repairs = request.answer.repair ?? 0;
  const answer = await answered(call, ask, { schema: output as Schema, repairs });
  return compensated(step, partName(identity, "done"), answer, rollback);
}

type Receipt = Timed<WaitReceipt<PromptEnd>>;
/** A prompt that Think has accepted, and that has ended. Its answer is not repaired. */
type ThinkEnd = Timed<{ readonly end: PromptEnd }>;

/** The answer. One that only the schema refuses goes back to the model, as often as `repair` says. */
async function answered<Schema extends AnySchema | undefined>(
  call: StepCall,
  first: WaitAsk,
  { schema, repairs }: { schema: Schema; repairs: number },
): Promise<PromptResult<Schema>> {
  const refused: string[] = [];
  let ask = first;
  let receipt: Receipt | ThinkEnd = await submitted(call, first);
  const { at: startedAt } = receipt;
  const most = "eventType" in receipt ? repairs : 0;
  for (let round = 1; ; round++) {
    const end = await endOf(call, ask, receipt);
    try {
      return await answerOf(end, schema);
    } catch (error) {
      const { submissionId } = end;
      const problem = refusalOf(end, error);
      if (problem !== undefined) refused.push(submissionId);
      const again = { round, refuses: submissionId, startedAt };
      ask = { ...first, request: { problem }, again };
      const next: Receipt | null =
        problem !== undefined && round <= most ? await openWait(call, ask) : null;
      if (!next) {
        const isWrong = error instanceof ThinkPromptValidationError && refused.length > 0;
        if (isWrong) await refuseWait(call, namesOf(call, first)("refuse"), "prompt", refused);
        throw error;
      }
      receipt = next;
    }
  }
}

/** How a submitted prompt has ended, with its answer. */
async function endOf(call: StepCall, ask: WaitAsk, receipt: Receipt | ThinkEnd) {
  const nameOf = namesOf(call, ask);
  if (!("eventType" in receipt)) return wholeEnd(call, nameOf, receipt.end);
  const { end: known, ...opened } = receipt;
  const { timeoutMs, closing, again } = ask;
  const left = timeoutMs - (again ? opened.at - again.startedAt : 0);
  const time = { timeoutMs: left, closing };
  const end =
    known ?? (await waitForEnd<PromptEnd>(call, nameOf, { kind: "prompt", ...opened }, time));
  if (end) return wholeEnd(call, nameOf, end);
  throw new ThinkPromptTimeoutError(opened.waitId, undefined, timeoutMs);
}

/** Submits the prompt, or finds it submitted: by this run, by an earlier one, or by Think, whose prompt is waited for. */
async function submitted(call: StepCall, ask: WaitAsk): Promise<Receipt | ThinkEnd> {
  const given = await openWait<WaitReceipt<PromptEnd> | ThinkPromptReceipt>(call, ask);
  if (given && "eventType" in given) return given;
  if (given) {
    const end = await thinkPromptEnd(call, ask, given);
    if (end) return { end, at: given.at };
  }
  const request = { ...(ask.request as object), thinkKey: undefined };
  const again = await openWait<WaitReceipt<PromptEnd>>(call, { ...ask, request }, "resubmit");
  if (again && "eventType" in again) return again;
  throw new Error(`The agent has not accepted the step ${preview(call.name)} again`);
}
