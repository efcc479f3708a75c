/** The options of `durable()`, and their check. */

import type { Connection } from "agents/lifecycle";
import type { Sessions } from "agents/sessions";
import type { WebSockets } from "agents/websockets";
import type { LanguageModel, ToolSet } from "ai";
import * as z from "zod";
import { count, hook, optionsOf, readOptions } from "../../core/options/option-schemas.ts";
import { checkNames, isPlainObject } from "../../core/options/options.ts";
import type { Problem } from "../../core/problems.ts";
import type { DeadLetter } from "../../outbox/types.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import { type Feature, HOST_OPTIONS, type HostOptions } from "../../workflow/agent/kernel.ts";
import type { Approval } from "../../workflow/waits/kinds/approval-types.ts";
import type { SubmissionAudience } from "../agent/clients.ts";
import { MCP_WAIT, type McpWait, type TurnOverrides, type TurnStart } from "../sdk/turn-source.ts";

type Awaitable<T> = T | Promise<T>;

/** What an object tells {@link durable}: its model, and what else it has. Functions are called for each turn. */
export type DurableOptions = HostOptions & ObjectOptions;

type ObjectOptions = {
  /** What the object installs beside submissions, workflows and the outbox, such as `schedules({ tasks })`. @default none */
  readonly features?: readonly Feature[];
  /** The model of the turns. A function gets the id that a submission or a prompt asks for by `models`. */
  readonly model: LanguageModel | ((id?: string) => Awaitable<LanguageModel>);
  /** @default "You are a helpful assistant." */
  readonly instructions?: string | (() => Awaitable<string>);
  /** @default none */
  readonly tools?: ToolSet | (() => Awaitable<ToolSet>);
  /**
   * Calls of the model in one turn, at most.
   * @default 10
   */
  readonly maxSteps?: number;
  /**
   * Whether a turn waits for the MCP servers of a client that is the object's field `mcp`, before `tools` is called: the connections
   * are made again after a restart. `true` waits without a limit, `timeout` is in milliseconds.
   * @default { timeout: 15_000 }
   */
  readonly waitForMcpConnections?: McpWait;
  /** Called once per attempt, before the model is asked: returns settings for this turn. */
  readonly beforeTurn?: (turn: TurnStart) => Awaitable<TurnOverrides | undefined | void>;
  /** A capability of the object in which the threads are kept, too. @default sessions of their own */
  readonly sessions?: Sessions;
  /** The connections that are sent submissions and approvals, as the next two options say. */
  readonly webSockets?: WebSockets;
  /** What a connection is sent of a submission: `"status"`, `true` for that and the reply while it is written. @default false */
  readonly shouldSendSubmission?: (
    submission: SubmissionInspection,
    connection: Connection,
  ) => SubmissionAudience;
  /** Whether a connection is sent the whole approval; others get its id, status and title. @default false */
  readonly shouldSendApproval?: (approval: Approval, connection: Connection) => boolean;
  /** Called after each change of a submission's status. Calls wait for it, 30 seconds at most. */
  readonly onSubmissionStatus?: (submission: SubmissionInspection) => Awaitable<void>;
  /** Called after an approval was opened, decided, expired or cancelled. */
  readonly onApproval?: (approval: Approval) => Awaitable<void>;
  /** Called at least once for each new dead letter. */
  readonly onDeadLetter?: (letter: DeadLetter) => Awaitable<void>;
  /** Called once for each problem that could go unnoticed. @default logs one line of JSON */
  readonly onProblem?: (problem: Problem) => Awaitable<void>;
};

type Given<Name extends keyof ObjectOptions> = NonNullable<ObjectOptions[Name]>;

const isFunction = (value: unknown) => typeof value === "function";
const isText = (value: unknown) => typeof value === "string" && value !== "";
/** By a method, and not by the class: there may be two copies of a package. */
const has = (value: unknown, method: string) =>
  typeof value === "object" && value !== null && isFunction(Reflect.get(value, method));
const isModel = (value: unknown) => isText(value) || isFunction(value) || has(value, "doStream");
const isTool = (value: unknown) => typeof value === "object" && value !== null;
const isMcpWait = (value: unknown) =>
  typeof value === "boolean" ||
  (isPlainObject(value) && Number(value.timeout) >= 0 && Object.keys(value).length === 1);
const isTools = (value: unknown) =>
  isFunction(value) || (isPlainObject(value) && Object.values(value).every(isTool));
const optionalHook = <Name extends keyof ObjectOptions>() =>
  hook().optional() as unknown as z.ZodType<ObjectOptions[Name], ObjectOptions[Name]>;

const SETTINGS = {
  features: z.custom<readonly Feature[]>(Array.isArray, "expected a list of features").default([]),
  model: z.custom<Given<"model">>(isModel, {
    error: "expected a model of the AI SDK, the id of one, or a function that returns one",
  }),
  instructions: z
    .custom<Given<"instructions">>((value) => isText(value) || isFunction(value), {
      error: "expected a text, or a function that returns one",
    })
    .default("You are a helpful assistant."),
  tools: z
    .custom<Given<"tools">>(isTools, {
      error: "expected an object with tools of the AI SDK, or a function that returns one",
    })
    .default({}),
  maxSteps: count().default(10),
  waitForMcpConnections: z
    .custom<McpWait>(isMcpWait, {
      error: "expected true, false, or { timeout } with milliseconds",
    })
    .default(MCP_WAIT),
  sessions: z
    .custom<Sessions>((value) => has(value, "session"), { error: "expected new Sessions()" })
    .optional(),
  webSockets: z
    .custom<WebSockets>((value) => has(value, "getConnections"), {
      error: "expected new WebSockets()",
    })
    .optional(),
  beforeTurn: optionalHook<"beforeTurn">(),
  shouldSendSubmission: optionalHook<"shouldSendSubmission">(),
  shouldSendApproval: optionalHook<"shouldSendApproval">(),
  onSubmissionStatus: optionalHook<"onSubmissionStatus">(),
  onApproval: optionalHook<"onApproval">(),
  onDeadLetter: optionalHook<"onDeadLetter">(),
  onProblem: optionalHook<"onProblem">(),
};
const SCHEMA = optionsOf<ObjectOptions>()(SETTINGS);

/** The options with their defaults. */
export type Settings = z.output<typeof SCHEMA>;

/** The options of the object, and those of the modules. @throws InvalidOptionError */
export function readDurableOptions(options: DurableOptions): {
  settings: Settings;
  limits: HostOptions;
} {
  const name = "options of durable()";
  checkNames(name, options ?? null, [...Object.keys(SETTINGS), ...HOST_OPTIONS]);
  const given = Object.entries(options);
  const own = Object.fromEntries(given.filter(([name]) => name in SETTINGS));
  const limits = Object.fromEntries(given.filter(([name]) => !(name in SETTINGS)));
  const settings = readOptions(SCHEMA, own as never, name);
  return { settings, limits };
}
