/** The tools for assistants that operate agents: everything that the operator API lists, and its actions where they are allowed. */

import { type CallToolResult, McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";
import { failureOf } from "../core/failures.ts";
import { byteLength } from "../core/json.ts";
import { InvalidOptionError } from "../core/options/options.ts";
import { type OperatorClient, OperatorError } from "../operator/client.ts";
import type { Action, AgentRef, Collections, Details } from "../operator/protocol.ts";
import { explainSchedule, ScheduleSyntaxError } from "../scheduler/pure.ts";
import { searchDocs } from "./docs.ts";

export type OperatorToolContext = {
  readonly server: { readonly name: string; readonly version: string };
  readonly client: OperatorClient;
  /** Whether the tools that change something are there. */
  readonly write: boolean;
  readonly maxOutputBytes: number;
};

const MAX_SECTIONS = 10;
const COLLECTIONS = [
  ...["submissions", "approvals", "inbound", "deliveries", "dead-letters", "endpoints", "tasks"],
  ...["workflows", "threads", "actions"],
] as readonly (keyof Collections)[];
const OPENED = COLLECTIONS.filter(
  (name) => name !== "threads" && name !== "actions",
) as readonly (keyof Details)[];

const text = (max = 2_048) => z.string().min(1).max(max);
const AGENT = {
  agent: text(200).describe("The agent's key, from list_agents."),
  name: text(1_024).describe("The instance's name, from list_agents."),
};
const PAGE = {
  limit: z.int().min(1).max(100).optional().describe("50 by default."),
  cursor: text(4_096).optional().describe("The cursor of the page before."),
};

/** Returns a server for one request. */
export function operatorServerOf(context: OperatorToolContext): McpServer {
  const server = new McpServer(context.server);
  addReads(server, context);
  addExplanations(server, context);
  if (context.write) for (const each of WRITES) addWrite(server, context, each);
  return server;
}

const READS = { readOnlyHint: true, idempotentHint: true, openWorldHint: false };

function addReads(server: McpServer, context: OperatorToolContext): void {
  const { client } = context;
  const add = <Shape extends z.ZodRawShape>(
    name: string,
    description: string,
    shape: Shape,
    call: (input: z.output<z.ZodObject<Shape>>) => Promise<unknown>,
  ) => {
    const inputSchema = z.strictObject(shape);
    server.registerTool(name, { description, inputSchema, annotations: READS }, (input) =>
      answered(context, () => call(input as z.output<z.ZodObject<Shape>>)),
    );
  };
  add("list_agents", "Lists the agents that can be operated.", PAGE, (page) => client.agents(page));
  add(
    "report",
    "Says whether work starts, succeeds, is delivered and runs on time. Each finding has evidence, a likely cause and a remedy. Call it first.",
    { agent: AGENT.agent.optional(), name: AGENT.name.optional() },
    ({ agent, name }) =>
      agent !== undefined && name !== undefined
        ? client.agentReport({ agent, name })
        : client.report(),
  );
  add(
    "list",
    "Lists what an agent has, newest first: submissions, approvals, inbound deliveries, deliveries of the outbox, dead letters, endpoints, scheduled tasks, workflows, threads, or the actions of operators.",
    { ...AGENT, collection: z.enum(COLLECTIONS), filter: FILTER, ...PAGE },
    ({ agent, name, collection, filter, ...page }) =>
      client.list({ agent, name }, collection, { ...filter, ...page }),
  );
  add(
    "get",
    "Returns one item of a list with its details. The id of an inbound delivery is source/id, that of an endpoint is its URL.",
    { ...AGENT, collection: z.enum(OPENED), id: text() },
    async ({ agent, name, collection, id }) =>
      found(await client.inspect({ agent, name }, collection, id), collection, id),
  );
  add(
    "list_parts",
    "Lists the runs of a scheduled task, or the messages of a thread.",
    { ...AGENT, part: z.enum(["tasks/runs", "threads/messages"]), id: text(), ...PAGE },
    ({ agent, name, part, id, ...page }) => client.parts({ agent, name }, part, id, page),
  );
  add(
    "trace",
    "Returns a submission as spans with their times: waiting, attempts, model calls, tools and deliveries.",
    { ...AGENT, submissionId: text() },
    async ({ agent, name, submissionId }) =>
      found(await client.trace({ agent, name }, submissionId), "submissions", submissionId),
  );
}

/** The API checks the values. */
const FILTER = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]))
  .optional()
  .describe(
    'What the list is filtered by, e.g. { "status": ["error"], "thread": "main" }. An unknown filter is answered with the known ones.',
  );

function addExplanations(server: McpServer, context: OperatorToolContext): void {
  server.registerTool(
    "explain_schedule",
    {
      description:
        "Explains a schedule in words, with its next occurrences and what daylight saving does to them.",
      inputSchema: z.strictObject({
        schedule: text(1_000).describe('E.g. "every weekday at 09:00 in Europe/London".'),
        timezone: text(100).optional().describe("For a schedule without one."),
        count: z.int().min(1).max(50).optional(),
      }),
      annotations: READS,
    },
    ({ schedule, timezone, count }) =>
      answered(context, async () => {
        const options = { ...(timezone !== undefined && { timezone }), count: count ?? 5 };
        return { ...explainSchedule(schedule, options), toString: undefined };
      }),
  );
  server.registerTool(
    "search_docs",
    {
      description: "Searches Perdure's documentation, of the version that runs here.",
      inputSchema: z.strictObject({
        query: text(200),
        limit: z.int().min(1).max(MAX_SECTIONS).optional(),
      }),
      annotations: READS,
    },
    ({ query, limit }) =>
      answered(context, async () => ({ sections: searchDocs(query, limit ?? 5) })),
  );
}

type Write = {
  readonly name: string;
  readonly description: string;
  /** Whether something cannot be undone by another tool. */
  readonly destructive?: boolean;
  readonly shape: z.ZodRawShape;
  readonly actionOf: (input: never) => Action;
};

const SINCE = z.iso.datetime({ offset: true }).optional();
const SUBMISSIONS = z.strictObject({
  status: z
    .array(z.enum(["pending", "running", "completed", "error", "aborted", "skipped"]))
    .optional(),
  thread: text(200).optional(),
  createdAfter: SINCE,
  createdBefore: SINCE,
});
const DEAD_LETTERS = z.strictObject({ since: SINCE, isUncertain: z.boolean().optional() });
const INBOUND = z.strictObject({
  source: text(200).optional(),
  type: text(200).optional(),
  since: SINCE,
  until: SINCE,
});
const TASK = { taskId: text(1_000) };
const WORKFLOW = { workflowId: text(1_000) };

/** One or many: the schema of the filter says by what many are selected. */
function oneOrMany(
  verb: Action["do"],
  id: string,
  filter: z.ZodType,
): Pick<Write, "shape" | "actionOf"> {
  return {
    shape: { [id]: text().optional(), filter: filter.optional() },
    actionOf: (input: Readonly<Record<string, unknown>>) => {
      if ((input[id] === undefined) === (input.filter === undefined)) {
        throw new InvalidOptionError(id, `Pass either ${id} or filter.`);
      }
      const target = input[id] === undefined ? { filter: input.filter } : { [id]: input[id] };
      return { do: verb, ...target } as Action;
    },
  };
}

/** An action whose fields are the input. */
function plain(verb: Action["do"], shape: z.ZodRawShape): Pick<Write, "shape" | "actionOf"> {
  return { shape, actionOf: (input: object) => ({ do: verb, ...input }) as Action };
}

/** Nothing here decides an approval: an assistant that is an agent could approve what it has asked for itself. */
const WRITES: readonly Write[] = [
  {
    name: "cancel",
    description: "Cancels submissions that have not ended.",
    destructive: true,
    ...oneOrMany("cancel", "submissionId", SUBMISSIONS),
  },
  {
    name: "retry",
    description: "Submits ended submissions again. Each is submitted again once.",
    ...oneOrMany("retry", "submissionId", SUBMISSIONS),
  },
  {
    name: "redrive",
    description:
      "Sends dead letters again. Those that may have been delivered only with isUncertain: true.",
    ...oneOrMany("redrive", "deliveryId", DEAD_LETTERS),
  },
  {
    name: "enable_endpoint",
    description: "Sends to a disabled URL again.",
    ...plain("enable-endpoint", { url: text() }),
  },
  {
    name: "disable_endpoint",
    description: "Sends nothing more to a URL until it is enabled again.",
    ...plain("disable-endpoint", { url: text() }),
  },
  {
    name: "replay",
    description:
      "Offers inbound deliveries to their handlers again: one by source and id, or those that a filter selects.",
    shape: { source: text(200).optional(), id: text().optional(), filter: INBOUND.optional() },
    actionOf: ({ source, id, filter }: { source?: string; id?: string; filter?: object }) => {
      if (filter !== undefined && source === undefined && id === undefined)
        return { do: "replay", filter } as Action;
      if (filter === undefined && source !== undefined && id !== undefined)
        return { do: "replay", source, id };
      throw new InvalidOptionError("filter", "Pass either source and id, or filter.");
    },
  },
  {
    name: "pause_task",
    description: "Stops a scheduled task until it is resumed.",
    ...plain("pause-task", TASK),
  },
  {
    name: "resume_task",
    description: "Lets a paused task run again.",
    ...plain("resume-task", TASK),
  },
  {
    name: "trigger_task",
    description: "Runs a scheduled task now.",
    ...plain("trigger-task", TASK),
  },
  {
    name: "skip_next",
    description: "Skips the next run of a scheduled task.",
    ...plain("skip-next", TASK),
  },
  {
    name: "backfill",
    description: "Runs the occurrences of a past period, except those that have run.",
    shape: {
      ...TASK,
      from: z.iso.datetime({ offset: true }),
      to: z.iso.datetime({ offset: true }),
    },
    actionOf: ({ taskId, from, to }: { taskId: string; from: string; to: string }) => ({
      ...{ do: "backfill" as const, taskId },
      ...{ from: Date.parse(from), to: Date.parse(to) },
    }),
  },
  {
    name: "pause_workflow",
    description: "Pauses a workflow.",
    ...plain("pause-workflow", WORKFLOW),
  },
  {
    name: "resume_workflow",
    description: "Resumes a paused workflow.",
    ...plain("resume-workflow", WORKFLOW),
  },
  {
    name: "terminate_workflow",
    description: "Ends a workflow, and cancels what it waits for.",
    destructive: true,
    ...plain("terminate-workflow", WORKFLOW),
  },
  {
    name: "restart_workflow",
    description:
      "Starts a workflow again, from its beginning or from a step: later steps run again.",
    destructive: true,
    ...plain("restart-workflow", {
      ...WORKFLOW,
      step: z.strictObject({ name: text(256), count: z.int().min(1).optional() }).optional(),
    }),
  },
];

function addWrite(server: McpServer, context: OperatorToolContext, write: Write): void {
  const { name: tool, description, destructive = false, shape, actionOf } = write;
  const inputSchema = z.strictObject({
    ...AGENT,
    ...shape,
    reason: text(500).describe("Why. It is stored in the audit log."),
    dryRun: z.boolean().optional().describe("Counts what would change, and changes nothing."),
    cursor: text(4_096)
      .optional()
      .describe("For a filter: the cursor of the result before. Continue until there is none."),
  });
  const annotations = {
    ...{ readOnlyHint: false, destructiveHint: destructive },
    ...{ idempotentHint: tool !== "trigger_task", openWorldHint: true },
  };
  server.registerTool(tool, { description, inputSchema, annotations }, (input) =>
    answered(context, async () => {
      const { agent, name, reason, dryRun, cursor, ...rest } = input as unknown as AgentRef & {
        reason: string;
        dryRun?: boolean;
        cursor?: string;
      };
      return context.client.act(
        { agent, name },
        {
          action: actionOf(rest as never),
          reason,
          ...(dryRun !== undefined && { dryRun }),
          ...(cursor !== undefined && { cursor }),
        },
      );
    }),
  );
}

class NotFoundError extends Error {}

function found<Item>(item: Item | null, collection: string, id: string): Item {
  if (item === null)
    throw new NotFoundError(`Nothing in ${collection} has the id ${JSON.stringify(id)}.`);
  return item;
}

/** What the caller may read of an error: what it has done wrong, and what the API answers. */
function isForCaller(error: unknown): boolean {
  return [OperatorError, NotFoundError, InvalidOptionError, ScheduleSyntaxError].some(
    (each) => error instanceof each,
  );
}

async function answered(
  { maxOutputBytes }: OperatorToolContext,
  call: () => Promise<unknown>,
): Promise<CallToolResult> {
  try {
    const json = JSON.stringify(await call());
    if (byteLength(json) > maxOutputBytes) {
      throw new NotFoundError(
        `The answer is larger than ${maxOutputBytes} bytes. Pass a lower limit, or a narrower filter.`,
      );
    }
    return { content: [{ type: "text", text: json }], structuredContent: JSON.parse(json) };
  } catch (error) {
    const { name, message } = failureOf(error);
    const isShown = isForCaller(error);
    if (!isShown) console.error(JSON.stringify({ perdure: "mcp:failed", name, message }));
    const shown = isShown ? message : "The operator API failed. Try again later.";
    return { content: [{ type: "text", text: shown }], isError: true };
  }
}
