/** The tools of operators that change something. */

import type { McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";
import { InvalidOptionError } from "../core/options/options.ts";
import type { Action, AgentRef } from "../operator/protocol.ts";
import { answered } from "./answers.ts";
import type { OperatorToolContext } from "./operator-tools.ts";
import { AGENT, DATA, text } from "./parameters.ts";

type Write = {
  readonly name: string;
  readonly description: string;
  /** Whether something cannot be undone by another tool. */
  readonly destructive?: boolean;
  /** Whether the same call once more changes nothing. */
  readonly idempotent?: boolean;
  readonly shape: z.ZodRawShape;
  readonly actionOf: (input: never) => Action;
};

const time = (what: string) => z.iso.datetime({ offset: true }).describe(`${what}, ISO 8601.`);
const since = time("Only what came at or after this time").optional();
const until = time("Only what came before this time").optional();
const source = text(200).describe("The source of inbound deliveries.").optional();
const SUBMISSIONS = z.strictObject({
  status: z
    .array(z.enum(["pending", "running", "completed", "error", "aborted", "skipped"]))
    .describe("Only those with one of these.")
    .optional(),
  thread: text(200).describe("Only those of this conversation.").optional(),
  createdAfter: since,
  createdBefore: until,
});
const DEAD_LETTERS = z.strictObject({
  since,
  isUncertain: z.boolean().describe("Only those that may have been delivered.").optional(),
});
const INBOUND = z.strictObject({
  source,
  type: text(200).describe("Only those of this type.").optional(),
  since,
  until,
});
const ENDPOINT = { url: text().describe("The URL of the receiver.") };
const TASK = { taskId: text(1_000).describe("The id of the scheduled task.") };
const WORKFLOW = { workflowId: text(1_000).describe("The id of the instance.") };

const STEP = z
  .strictObject({
    name: text(256).describe("The name of the step."),
    count: z.int().min(1).describe("Which of the steps of this name. 1 by default.").optional(),
  })
  .describe("The step to begin from. By default, the workflow begins again.");

/** One or many: the schema of the filter says by what many are selected. */
function oneOrMany(
  verb: Action["do"],
  id: string,
  filter: z.ZodType,
): Pick<Write, "shape" | "actionOf"> {
  return {
    shape: {
      [id]: text().describe("One of them. Either this or filter.").optional(),
      filter: filter.describe(`All that match: an object. Either this or ${id}.`).optional(),
    },
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
export const WRITES: readonly Write[] = [
  {
    name: "cancel",
    idempotent: true,
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
    idempotent: true,
    description: "Sends to a disabled URL again.",
    ...plain("enable-endpoint", ENDPOINT),
  },
  {
    name: "disable_endpoint",
    idempotent: true,
    description: "Sends nothing more to a URL until it is enabled again.",
    ...plain("disable-endpoint", ENDPOINT),
  },
  {
    name: "replay",
    description:
      "Offers inbound deliveries to their handlers again: one by source and id, or those that a filter selects.",
    shape: {
      source,
      id: text().describe("The id of one delivery, with its source.").optional(),
      filter: INBOUND.describe("All that match. Either this or source and id.").optional(),
    },
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
    idempotent: true,
    description: "Stops a scheduled task until it is resumed.",
    ...plain("pause-task", TASK),
  },
  {
    name: "resume_task",
    idempotent: true,
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
    idempotent: true,
    description: "Runs the occurrences of a past period, except those that have run.",
    shape: {
      ...TASK,
      from: time("The begin of the period"),
      to: time("Its end, which is not part of it"),
    },
    actionOf: ({ taskId, from, to }: { taskId: string; from: string; to: string }) => ({
      ...{ do: "backfill" as const, taskId },
      ...{ from: Date.parse(from), to: Date.parse(to) },
    }),
  },
  {
    name: "pause_workflow",
    idempotent: true,
    description: "Pauses a workflow.",
    ...plain("pause-workflow", WORKFLOW),
  },
  {
    name: "resume_workflow",
    idempotent: true,
    description: "Resumes a paused workflow.",
    ...plain("resume-workflow", WORKFLOW),
  },
  {
    name: "terminate_workflow",
    idempotent: true,
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
      step: STEP.optional(),
    }),
  },
];

export function addWrite(server: McpServer, context: OperatorToolContext, write: Write): void {
  const { name: tool, destructive = false, idempotent = false, shape, actionOf } = write;
  const description = `${write.description} ${DATA}`;
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
    ...{ idempotentHint: idempotent, openWorldHint: true },
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
