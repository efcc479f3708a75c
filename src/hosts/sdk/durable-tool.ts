/** `durableTool()`: a tool of the AI SDK whose finished steps are not repeated when its turn is. */

import type { Tool, ToolExecutionOptions } from "ai";
import * as z from "zod";
import { jsonTextOf, lostInJson, preview } from "../../core/json.ts";
import { flag, hook, optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import type { CallSteps } from "../../submissions/host.ts";

/** Bytes of JSON of one step's result. A row takes 2 MB. */
const RESULT_BYTES = 1_000_000;
const NAME = text({ maxLength: 100 });
const WORK = z.custom((work) => typeof work === "function", {
  error: "expected a function, e.g. () => send(order)",
});
const PLAIN_DATA = "Return text, numbers, lists and plain objects.";

/** What is not plain data: JSON would change it or leave it out. */
type Unstorable =
  | bigint
  | symbol
  | ((...args: never[]) => unknown)
  | Date
  | RegExp
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | ArrayBufferLike
  | ArrayBufferView;

/** The type, if its values are plain data that JSON holds, and `never` in place of what is not. */
type Storable<T> = T extends Unstorable
  ? never
  : T extends object
    ? { [Key in keyof T]: Storable<T[Key]> }
    : T;

/** The steps of one call of a durable tool. */
export type ToolStep = {
  /**
   * Runs `work` and stores its result; a repetition of the turn gets the stored result. Results are JSON of at most
   * 1,000,000 bytes. An error is not stored: it ends the call, unless the tool catches it.
   *
   * @param name at most 100 characters; each step of a call needs a name of its own, the same in every repetition
   * @param work runs again if a crash interrupts it. Pass its `idempotencyKey` on where a repetition would harm
   * @throws InvalidToolStepError for an invalid name or result
   * @throws ToolStepLimitError when the call has 100 steps
   */
  do<Result>(
    name: string,
    work: ((step: { readonly idempotencyKey: string }) => Result | Promise<Result>) &
      ([Result] extends [Storable<Result>] ? unknown : { readonly "JSON cannot hold": Result }),
  ): Promise<Result>;
};

/** What `execute()` of a durable tool gets besides the input. */
export type DurableToolContext = ToolExecutionOptions<unknown> & {
  readonly step: ToolStep;
  /** A key that each repetition of the call has, also in a retry of its submission. */
  readonly idempotencyKey: string;
};

type Settings<Input, Output> = Pick<
  Tool<Input, Output, unknown>,
  | "inputSchema"
  | "metadata"
  | "needsApproval"
  | "onInputAvailable"
  | "onInputDelta"
  | "onInputStart"
  | "providerOptions"
  | "title"
  | "toModelOutput"
>;

export type DurableToolOptions<Input, Output> = Settings<Input, Output> & {
  /** Name and input identify the call, also after a deploy. Use the name as the key of the tool, too. */
  readonly name: string;
  /** Tells the model what the tool does. */
  readonly description?: string;
  /** Whether the provider must produce arguments that match the schema. */
  readonly strict?: boolean;
  execute(input: Input, context: DurableToolContext): Output | Promise<Output>;
};

/** What a host needs of a durable tool. */
type Durable = {
  readonly name: string;
  /** Runs a call with the steps that the ledger has of it, or without a record. */
  run(input: unknown, options: object, steps: CallSteps | undefined): Promise<unknown>;
};

/** Copies of the tool have it as well; registered, so that two copies of this module share it. */
const DURABLE = Symbol.for("perdure.durableTool");

/**
 * A tool that may be interrupted at any time: when its turn is repeated, it runs again, and finished steps are answered from
 * their records. It does not count as a side effect. In a turn that a chat client starts, there is no record: its steps just run.
 *
 * @throws TypeError for invalid options
 * @example
 * const refund = durableTool({
 *   name: "refund",
 *   inputSchema: z.object({ order: z.string() }),
 *   async execute({ order }, { step }) {
 *     const id = await step.do("pay back", ({ idempotencyKey }) => payBack(order, { idempotencyKey }));
 *     await step.do("tell the customer", () => mail(order, id));
 *     return { id };
 *   },
 * });
 */
export function durableTool<Input, Output>(
  options: DurableToolOptions<Input, Output>,
): Tool<Input, Output> & {
  execute(input: Input, options: ToolExecutionOptions<unknown>): Promise<Output>;
} {
  const invalid = (_: string, message: string) => new TypeError(message);
  readOptions(OPTIONS, options ?? null, "options of durableTool()", invalid);
  const { name, execute, ...settings } = options;
  const durable: Durable = {
    name,
    run: async (input, given, steps) => {
      const { toolCallId } = given as ToolExecutionOptions<unknown>;
      const own = steps ?? unrecorded(toolCallId);
      const { idempotencyKey } = own;
      const context = { ...given, idempotencyKey, step: stepOf(own) } as DurableToolContext;
      return execute(input as Input, context);
    },
  };
  const tool = {
    ...settings,
    execute: async (input: Input, given: ToolExecutionOptions<unknown>) =>
      storable(name, await durable.run(input, given, undefined)),
    [DURABLE]: durable,
  };
  return tool as unknown as ReturnType<typeof durableTool<Input, Output>>;
}

/** A durable tool, as a host runs it; undefined for another tool. */
export function durableOf(tool: object): Durable | undefined {
  return DURABLE in tool ? (tool[DURABLE] as Durable) : undefined;
}

/**
 * The output of a tool, as it is. The AI SDK would end the turn with the error of `JSON.stringify()`; the model gets this one.
 *
 * @throws TypeError for an output that JSON cannot hold
 */
export function storable<T>(tool: string, output: T): T {
  const refuse = (message: string) => new TypeError(`${message} ${PLAIN_DATA}`);
  const name = `result of tool ${preview(tool)}`;
  if (output !== undefined) jsonTextOf(name, output, { maxBytes: Infinity, refuse });
  return output;
}

const setting = z.unknown().optional();

/** A misspelt option must not be lost: without `needsApproval` a tool runs at once. */
const OPTIONS = optionsOf<DurableToolOptions<unknown, unknown>>()({
  name: z.custom<string>((name) => typeof name === "string" && /^[\w-]{1,64}$/.test(name), {
    error: "expected the tool's key, of at most 64 letters, digits, _ and -",
  }),
  description: text({ empty: true }).optional(),
  strict: flag().optional(),
  // ArkType's schemas are functions.
  inputSchema: z.custom<Settings<unknown, unknown>["inputSchema"]>(
    (schema) => typeof schema === "function" || (typeof schema === "object" && schema !== null),
    { error: "expected a schema, e.g. z.object({})" },
  ),
  execute: hook(),
  metadata: setting,
  needsApproval: setting,
  onInputAvailable: setting,
  onInputDelta: setting,
  onInputStart: setting,
  providerOptions: setting,
  title: setting,
  toModelOutput: setting,
});

/** For a turn that the ledger does not know. */
function unrecorded(toolCallId: string): CallSteps {
  return {
    idempotencyKey: toolCallId,
    run: (_name, work) => work(),
  };
}

const refused = (_: string, message: string) => new InvalidToolStepError(message);

function stepOf(steps: CallSteps): ToolStep {
  const names = new Set<string>();
  const stepName = NAME.refine((name) => !names.has(name), {
    error:
      "this call has a step of that name. Give each its own name, e.g. with the key of the item",
  });
  return {
    async do(name, work) {
      readOptions(stepName, name, "step name", refused);
      readOptions(WORK, work, `work of step ${preview(name)}`, refused);
      names.add(name);
      const json = await steps.run(name, async () =>
        jsonOf(name, await work({ idempotencyKey: `${steps.idempotencyKey}/${name}` })),
      );
      // As a repetition gets it.
      return json === null ? undefined : JSON.parse(json);
    },
  };
}

/** @throws InvalidToolStepError for a result that cannot be stored */
function jsonOf(step: string, result: unknown): string | null {
  if (result === undefined) return null;
  const refuse = (message: string) => new InvalidToolStepError(message);
  const name = `result of step ${preview(step)}`;
  const lost = lostInJson(result)?.trim();
  if (lost !== undefined)
    throw refuse(`Invalid ${name}: ${lost}, which JSON cannot hold. ${PLAIN_DATA}`);
  return jsonTextOf(name, result, { maxBytes: RESULT_BYTES, refuse });
}

/** A step of a durable tool has an invalid name, or a result that cannot be stored. What the step did has happened. */
export class InvalidToolStepError extends Error {
  override readonly name = "InvalidToolStepError";
}
