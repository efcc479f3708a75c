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
import { fromJSONSchema } from "zod";
import { type Failure, failureOf } from "../../core/failures.ts";

const NAME = "think_final_answer";

/** What a turn is without the answer, as far as the answer needs to know it. */
type AnswerContext = { readonly system: string; readonly tools: ToolSet };

/** The settings of a turn that the answer adds to, or overrules. */
type AnswerConfig = {
  readonly instructions?: string | undefined;
  readonly system?: string | undefined;
  readonly output?: unknown;
  readonly tools?: ToolSet | undefined;
  readonly activeTools?: readonly string[] | undefined;
  readonly toolChoice?: ToolChoice<ToolSet> | undefined;
  readonly stopWhen?: StopCondition<ToolSet> | StopCondition<ToolSet>[] | undefined;
};

/** What the settings are with the answer. */
type Required = {
  instructions: string;
  tools: ToolSet;
  activeTools?: string[];
  toolChoice: ToolChoice<ToolSet>;
  stopWhen: StopCondition<ToolSet>[];
};

/** The settings of a step that the answer overrules. */
type StepOverrides = Pick<NonNullable<PrepareStepResult<ToolSet>>, "toolChoice" | "activeTools">;

/** Takes an answer of the model, and returns what the model is told. */
export type TakeAnswer = (input: unknown) => string;

export function isFinalAnswer(toolName: string): boolean {
  return toolName === NAME || toolName.startsWith(`${NAME}_`);
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
        inputSchema: jsonSchema(schema),
        execute: async (input: unknown) => take(input),
      }),
    },
    ...(activeTools && { activeTools: [...activeTools, name] }),
    toolChoice: others.length > 0 ? "required" : { type: "tool", toolName: name },
    stopWhen: [hasToolCall(name), ...(stopWhen ? [stopWhen].flat() : [])],
  };
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

/** Why an answer does not match its schema, or undefined when it does (W4). */
function problemOf(answer: unknown, schema: object): Failure | undefined {
  const checked = parserOf(schema)?.safeParse(answer);
  if (!checked || checked.success) return undefined;
  const issues = checked.error.issues.map(
    ({ path, message }) => `${path.join(".") || "answer"}: ${message}`,
  );
  return {
    name: "InvalidAnswerError",
    message: `The model's final answer does not match the schema: ${issues.join("; ")}`,
  };
}

/** What has become of the answer so far. */
export type Answering = { isAnswered: boolean; problem: Failure | undefined };

/**
 * Takes an answer of the model: checked, and recorded once. Returns what the
 * model is told; after a problem it may give a better one.
 */
export function takeAnswer(
  answer: unknown,
  schema: object,
  state: Answering,
  record: () => boolean,
): string {
  if (state.isAnswered) return "The final answer was recorded before; it stands.";
  state.problem = problemOf(answer, schema);
  if (state.problem) return state.problem.message;
  try {
    state.isAnswered = record();
  } catch (error) {
    state.problem = failureOf(error);
    return state.problem.message;
  }
  return "Final answer recorded.";
}

/** Schemas that cannot be read back are left to the workflow, which has the original. */
function parserOf(schema: object) {
  try {
    return fromJSONSchema(schema as Parameters<typeof fromJSONSchema>[0]);
  } catch {
    return undefined;
  }
}

function instruction(name: string): string {
  return (
    `When you have what you need, finish by calling the \`${name}\` tool exactly once, with arguments ` +
    "that match its schema. Do not write the answer as text: the call is the answer and ends the task."
  );
}
