/**
 * What an attempt asks, as settings of a turn and of its steps: by the
 * final-answer tool, or for a text. Pure additions to what the app has set; it
 * keeps no state.
 */

import type { ModelMessage } from "ai";
import type { AttemptPlan } from "../../submissions/index.ts";
import {
  type AnswerConfig,
  type AnswerContext,
  requireFinalAnswer,
  requireFinalAnswerInStep,
  type StepOverrides,
  type TakeAnswer,
} from "./final-answer.ts";

/** The settings of a turn that what is asked adds to, or overrules. */
type AskedConfig = AnswerConfig & { readonly messages?: ModelMessage[] | undefined };
type Context = AnswerContext & { readonly messages: ModelMessage[] };

/** How the answer is taken, where it is asked for by the tool. */
export type AnswerTool = { readonly name: string; readonly take: TakeAnswer };

/**
 * The app's settings with what is asked. Whatever would keep the model from
 * the answer is overruled; an attempt that goes on from an earlier reply is
 * offered no tool but the final answer.
 */
export function askedSettings<Config extends AskedConfig>(
  ctx: Context,
  config: Config,
  plan: AttemptPlan,
  { name, take }: AnswerTool,
): Config {
  const { schema, followUp } = plan;
  const messages = [...(config.messages ?? ctx.messages)];
  if (followUp !== undefined) messages.push({ role: "user", content: followUp });
  const asked: Config = {
    ...config,
    ...(followUp !== undefined && { messages, activeTools: [], toolChoice: "none" }),
  };
  if (!schema) return asked;
  if (plan.how === "json") return withInstructions(ctx, asked, schema);
  // The tool's own settings overrule others of their names, and leave the rest as it is.
  return requireFinalAnswer(ctx, asked, { name, schema, take }) as unknown as Config;
}

/** Keeps a single step from switching the answer off, and makes the last one give it. */
export function askedInStep<Config extends object>(
  event: { readonly stepNumber: number },
  config: Config & StepOverrides,
  { how, followUp }: AttemptPlan,
  { name, maxSteps }: { name: string; maxSteps: number },
): Config & StepOverrides {
  const most = followUp === undefined ? maxSteps : 1;
  if (how === "tool") return requireFinalAnswerInStep(event, config, { name, maxSteps: most });
  if (event.stepNumber < most - 1) return config;
  return { ...config, toolChoice: "none", activeTools: [] };
}

function withInstructions<Config extends AskedConfig>(
  ctx: Context,
  { output: _output, ...config }: Config,
  schema: object,
): Config {
  const { instructions = config.system ?? ctx.system } = config;
  const all = [instructions, `${JSON_ONLY}\n\n${JSON.stringify(schema)}`].filter(Boolean);
  return { ...config, instructions: all.join("\n\n") } as unknown as Config;
}

const JSON_ONLY =
  "When you have what you need, finish with a reply that is a single JSON value and nothing else: no words " +
  "around it, no Markdown. It is your answer, and has to match this JSON Schema:";
