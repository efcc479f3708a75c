/**
 * What an attempt asks of the model, as settings of the turn and of its steps: a call of the final-answer tool, or a reply that is
 * JSON. The settings add to those of the app, and overrule what would keep the model from the answer. No state is kept.
 *
 * A tool call, and not a response format, because every provider streams tool calls. Think reserves the name
 * `think_final_answer` and its variants and keeps their calls out of the conversation.
 */

import {
  hasToolCall,
  jsonSchema,
  type ModelMessage,
  type PrepareStepResult,
  type StopCondition,
  type ToolChoice,
  type ToolSet,
  tool,
} from "ai";
import { failureOf } from "../../core/failures.ts";
import { FINAL_ANSWER } from "../../submissions/host.ts";
import type { AttemptPlan } from "../../submissions/turns/next-attempt.ts";

export type TurnContext = {
  readonly system: string;
  readonly tools: ToolSet;
  readonly messages: ModelMessage[];
};

export type TurnSettings = {
  readonly instructions?: string | undefined;
  readonly system?: string | undefined;
  readonly messages?: ModelMessage[] | undefined;
  readonly output?: unknown;
  readonly tools?: ToolSet | undefined;
  readonly activeTools?: readonly string[] | undefined;
  readonly toolChoice?: ToolChoice<ToolSet> | undefined;
  readonly stopWhen?: StopCondition<ToolSet> | StopCondition<ToolSet>[] | undefined;
};

/** The settings of a step that the answer overrules. */
type StepSettings = Pick<NonNullable<PrepareStepResult<ToolSet>>, "toolChoice" | "activeTools">;

/** The final-answer tool of a turn: `take()` takes its arguments, and returns what the model is told. */
type AnswerTool = { readonly name: string; readonly take: (input: unknown) => string };

/** Whether the AI SDK found that the model has not called the tool that it had to, or has called one that it must not. */
export function isToolChoiceViolation(cause: unknown): boolean {
  return failureOf(cause).name === "AI_ToolChoiceViolationError";
}

/** The reserved name, or a variant of it when the app has a tool of that name. */
export function finalAnswerName(taken: object): string {
  let name = FINAL_ANSWER;
  for (let suffix = 1; name in taken; suffix++) name = `${FINAL_ANSWER}_${suffix}`;
  return name;
}

/** The app's settings with what the plan asks for. A follow-up is offered no tool but the final answer. */
export function askedSettings<Config extends TurnSettings>(
  ctx: TurnContext,
  config: Config,
  { how, schema, followUp }: AttemptPlan,
  answer: AnswerTool,
): Config {
  const messages = [...(config.messages ?? ctx.messages)];
  if (followUp !== undefined) messages.push({ role: "user", content: followUp });
  const asked: Config = {
    ...config,
    ...(followUp !== undefined && { messages, activeTools: [], toolChoice: "none" }),
  };
  if (!schema) return asked;
  if (how !== "json") return withTool(ctx, asked, schema, answer);
  return instructed(ctx, asked, `${JSON_ONLY}\n\n${JSON.stringify(schema)}`) as unknown as Config;
}

/** Keeps a single step from switching the answer off, and makes the last step give it. */
export function askedInStep<Config extends StepSettings>(
  stepNumber: number,
  config: Config,
  { how, followUp }: AttemptPlan,
  name: string,
  maxSteps: number,
): Config {
  const isLast = stepNumber >= (followUp === undefined ? maxSteps : 1) - 1;
  if (how !== "tool") return isLast ? { ...config, toolChoice: "none", activeTools: [] } : config;
  if (isLast)
    return { ...config, toolChoice: { type: "tool", toolName: name }, activeTools: [name] };
  const { toolChoice, activeTools } = config;
  return {
    ...config,
    ...(activeTools && { activeTools: [...activeTools, name] }),
    ...((toolChoice === "none" || toolChoice === "auto") && { toolChoice: "required" }),
  };
}

/** The settings with more instructions, and without an output format. */
function instructed(
  ctx: TurnContext,
  { output: _output, system = ctx.system, instructions = system, ...config }: TurnSettings,
  more: string,
): TurnSettings {
  return { ...config, instructions: [instructions, more].filter(Boolean).join("\n\n") };
}

const JSON_ONLY =
  "When you have what you need, finish with a reply that is a single JSON value and nothing else: no words " +
  "around it, no Markdown. It is your answer, and has to match this JSON Schema:";

/** Adds the tool, and the obligation to call it. A tool choice, an output format and a narrower tool list are overruled. */
function withTool<Config extends TurnSettings>(
  ctx: TurnContext,
  config: Config,
  schema: object,
  { name, take }: AnswerTool,
): Config {
  const { tools, activeTools, stopWhen } = config;
  const others = activeTools ?? Object.keys({ ...ctx.tools, ...tools });
  const finalAnswer = tool({
    description:
      "Gives your final answer and ends the task. Call it exactly once, when you have " +
      "everything you need. The arguments must match the schema.",
    inputSchema: jsonSchema(isObject(schema) ? schema : wrapped(schema)),
    execute: async (input: unknown) => take(input),
  });
  const more =
    `When you have what you need, finish by calling the \`${name}\` tool exactly once, with arguments ` +
    "that match its schema. Do not write the answer as text: the call is the answer and ends the task.";
  return {
    ...instructed(ctx, config, more),
    tools: { ...tools, [name]: finalAnswer },
    ...(activeTools && { activeTools: [...activeTools, name] }),
    toolChoice: others.length > 0 ? "required" : { type: "tool", toolName: name },
    stopWhen: [hasToolCall(name), ...(stopWhen ? [stopWhen].flat() : [])],
  } as unknown as Config;
}

type JsonSchema = Partial<Record<"type" | "$schema" | "$defs" | "definitions", unknown>>;

/** The arguments of a call are an object; any other answer is the one property of it. What it refers to stays at the root. */
function wrapped(schema: object): object {
  const { $schema: _, $defs, definitions, ...answer } = moved(schema);
  return {
    type: "object",
    properties: { answer },
    required: ["answer"],
    additionalProperties: false,
    ...($defs !== undefined && { $defs }),
    ...(definitions !== undefined && { definitions }),
  };
}

/** The schema with its references to places in itself changed to where those are in the wrapper. */
function moved(schema: object): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === "$ref" && typeof value === "string" && OWN_PLACE.test(value)
      ? `#/properties/answer${value.slice(1)}`
      : value,
  ) as JsonSchema;
}

/** `#` and `#/...`, but for what stays at the root. */
const OWN_PLACE = /^#(?!\/(\$defs|definitions)\/)(\/|$)/;

function isObject(schema: JsonSchema): boolean {
  return schema.type === "object";
}

/**
 * Possible meanings of the arguments of a call, the likeliest first. Some models leave the wrapper out, and an answer may have a property
 * of its name.
 */
export function readings(input: unknown, schema: object): unknown[] {
  const isWrapped = typeof input === "object" && input !== null && "answer" in input;
  return isWrapped && !isObject(schema) ? [input.answer, input] : [input];
}
