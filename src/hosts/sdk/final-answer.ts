/**
 * The final-answer tool: how a turn by the AI SDK ends with a structured
 * answer. Pure additions to the settings of a turn and of its steps; it keeps
 * no state.
 *
 * A tool call, and not a response format, because every provider streams tool
 * calls. Think reserves the name `think_final_answer` and its variants and
 * keeps their calls out of the conversation.
 */

import {
  hasToolCall,
  jsonSchema,
  type PrepareStepResult,
  type StopCondition,
  type ToolChoice,
  type ToolSet,
  tool,
} from "ai";
import { failureOf } from "../../core/failures.ts";

const NAME = "think_final_answer";

/** What a turn is without the answer, as far as the answer needs to know it. */
export type AnswerContext = { readonly system: string; readonly tools: ToolSet };

/** The settings of a turn that the answer adds to, or overrules. */
export type AnswerConfig = {
  readonly instructions?: string | undefined;
  readonly system?: string | undefined;
  readonly output?: unknown;
  readonly tools?: ToolSet | undefined;
  readonly activeTools?: readonly string[] | undefined;
  readonly toolChoice?: ToolChoice<ToolSet> | undefined;
  readonly stopWhen?: StopCondition<ToolSet> | StopCondition<ToolSet>[] | undefined;
};

/** What the settings are with the answer. */
export type Required = {
  instructions: string;
  tools: ToolSet;
  activeTools?: string[];
  toolChoice: ToolChoice<ToolSet>;
  stopWhen: StopCondition<ToolSet>[];
};

/** The settings of a step that the answer overrules. */
export type StepOverrides = Pick<
  NonNullable<PrepareStepResult<ToolSet>>,
  "toolChoice" | "activeTools"
>;

/** Takes an answer of the model, and returns what the model is told. */
export type TakeAnswer = (input: unknown) => string;

export function isFinalAnswer(toolName: string): boolean {
  return toolName === NAME || toolName.startsWith(`${NAME}_`);
}

/** Whether the AI SDK found that the model has not called the tool that it had to, or has called one that it must not. */
export function isToolChoiceViolation(cause: unknown): boolean {
  return failureOf(cause).name === "AI_ToolChoiceViolationError";
}

/** The reserved name, or a variant of it when the app has a tool of that name. */
export function finalAnswerName(taken: object): string {
  let name = NAME;
  for (let suffix = 1; name in taken; suffix++) name = `${NAME}_${suffix}`;
  return name;
}

/**
 * Adds the tool, and the obligation to call it, to the settings that the app
 * made. Whatever would let the model end the turn without it (a tool choice,
 * an output format, a narrower tool list) is overruled.
 */
export function requireFinalAnswer<Config extends AnswerConfig>(
  ctx: AnswerContext,
  config: Config,
  { name, schema, take }: { name: string; schema: object; take: TakeAnswer },
): Omit<Config, keyof AnswerConfig> & Required {
  const {
    instructions,
    system,
    output: _output,
    tools,
    activeTools,
    toolChoice: _toolChoice,
    stopWhen,
    ...rest
  } = config;
  const others = activeTools ?? Object.keys({ ...ctx.tools, ...tools });
  const isObject = (schema as JsonSchema).type === "object";
  return {
    ...rest,
    instructions: [instructions ?? system ?? ctx.system, instruction(name)]
      .filter(Boolean)
      .join("\n\n"),
    tools: {
      ...tools,
      [name]: tool({
        description:
          "Gives your final answer and ends the task. Call it exactly once, when you have " +
          "everything you need. The arguments must match the schema.",
        inputSchema: jsonSchema(isObject ? schema : wrapped(schema)),
        execute: async (input: unknown) => take(isObject ? input : unwrapped(input)),
      }),
    },
    ...(activeTools && { activeTools: [...activeTools, name] }),
    toolChoice: others.length > 0 ? "required" : { type: "tool", toolName: name },
    stopWhen: [hasToolCall(name), ...(stopWhen ? [stopWhen].flat() : [])],
  };
}

type JsonSchema = {
  readonly type?: unknown;
  readonly $schema?: unknown;
  readonly $defs?: unknown;
  readonly definitions?: unknown;
};

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

/** With its references to itself, and to places in itself, to where it is from now on. */
function moved(schema: object): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === "$ref" && typeof value === "string" && OWN_PLACE.test(value)
      ? `#/properties/answer${value.slice(1)}`
      : value,
  ) as JsonSchema;
}

/** `#` and `#/...`, but for what stays at the root. */
const OWN_PLACE = /^#(?!\/(\$defs|definitions)\/)(\/|$)/;

function unwrapped(input: unknown): unknown {
  return typeof input === "object" && input !== null && "answer" in input ? input.answer : input;
}

/** Keeps a single step from switching the answer off, and makes the last step give it. */
export function requireFinalAnswerInStep<Config extends object>(
  { stepNumber }: { readonly stepNumber: number },
  config: Config & StepOverrides,
  { name, maxSteps }: { name: string; maxSteps: number },
): Config & StepOverrides {
  if (stepNumber >= maxSteps - 1) {
    return { ...config, toolChoice: { type: "tool", toolName: name }, activeTools: [name] };
  }
  const { toolChoice, activeTools } = config;
  return {
    ...config,
    ...(activeTools && { activeTools: [...activeTools, name] }),
    ...((toolChoice === "none" || toolChoice === "auto") && { toolChoice: "required" }),
  };
}

function instruction(name: string): string {
  return (
    `When you have what you need, finish by calling the \`${name}\` tool exactly once, with arguments ` +
    "that match its schema. Do not write the answer as text: the call is the answer and ends the task."
  );
}
