/** The tools of operators that change something. */

import type { McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";
import { InvalidOptionError } from "../../core/options/options.ts";
import type { Definition } from "../../engine/operated/catalog.ts";
import { type ActionName, DEFINITIONS } from "../catalog.ts";
import { listOf } from "../lists.ts";
import type { Action, AgentRef } from "../protocol.ts";
import { answered, type OperatorToolContext } from "./answers.ts";
import { AGENT, DATA, text } from "./parameters.ts";

const TIME = z.iso.datetime({ offset: true });

/** By what all are selected. A filter that is JSON, or for each key, is left out. */
function filterOf(list: string): z.ZodType {
  const filters = Object.entries(listOf(list)?.filters ?? {}).flatMap(([name, kind]) => {
    const schema = typeof kind === "string" ? KINDS[kind]?.(name) : wordsOf(kind);
    return schema ? [[name, schema.optional()]] : [];
  });
  return z.strictObject(Object.fromEntries(filters));
}

const wordsOf = (words: readonly string[]) =>
  z.array(z.enum(words)).describe("Only those with one of these.");
/** By what a filter takes. */
const KINDS: Readonly<Record<string, (name: string) => z.ZodType>> = {
  text: (name) => text(200).describe(`Only those with this ${name}.`),
  texts: (name) =>
    z.array(text(2_000)).min(1).max(100).describe(`Only those with one of these ${name}s.`),
  time: (name) =>
    TIME.describe(
      `Only what came ${/until|before/i.test(name) ? "before" : "at or after"} this time, ISO 8601.`,
    ),
  flag: (name) => z.boolean().describe(`Only those with this ${name}.`),
};

const STEP = z.union([
  z.literal("failed").describe("The step that failed, or at which the run stands."),
  z.literal("start").describe("The beginning of the run."),
  z.strictObject({
    name: text(256).describe("The name of the step."),
    count: z.int().min(1).describe("Which of the steps of this name. 1 by default.").optional(),
  }),
]);

/** By the kind of a field. */
const SCHEMAS = {
  id: text(),
  key: z.string().max(4_096),
  url: text(),
  time: TIME,
  json: z.json().optional(),
  step: STEP.optional(),
};

function schemaOf([kind, means]: Definition["fields"][string]): z.ZodType {
  const [first = "", ...rest] = means;
  const format = kind === "time" ? ", ISO 8601" : "";
  return SCHEMAS[kind].describe(`${first.toUpperCase()}${rest.join("")}${format}.`);
}

/** With a filter: one or many. The schema of the filter says by what many are selected. */
function shapeOf({ fields, filter }: Definition): z.ZodRawShape {
  const names = Object.keys(fields);
  const schemas = Object.entries(fields).map(([name, field]): [string, z.ZodType] => {
    const schema = schemaOf(field);
    return [name, filter ? schema.optional() : schema];
  });
  return {
    ...Object.fromEntries(schemas),
    ...(filter && {
      filter: filterOf(filter)
        .describe(`All that match: an object. Either this or ${names.join(" and ")}.`)
        .optional(),
    }),
  };
}

type Input = Readonly<Record<string, unknown>>;

function actionOf(name: ActionName, { fields, filter }: Definition, input: Input): Action {
  const given = Object.entries(input).filter(([, value]) => value !== undefined);
  const names = Object.keys(fields).filter(
    (field) => !/^(json|step)$/.test(fields[field]?.[0] ?? ""),
  );
  const isMany =
    input.filter !== undefined && given.every(([name]) => name === "filter" || name === "step");
  const isOne =
    input.filter === undefined && (!filter || names.every((field) => input[field] !== undefined));
  if (!isMany && !isOne)
    throw new InvalidOptionError(names[0] ?? "", `Pass either ${names.join(" and ")} or filter.`);
  const target = given.map(([field, value]) => [
    field,
    fields[field]?.[0] === "time" ? Date.parse(value as string) : value,
  ]);
  return { do: name, ...Object.fromEntries(target) } as Action;
}

const CONFIRM =
  "Does it. Without it, the result lists what runs again, and nothing is done: show it to a person first.";
const NOT_CONFIRMED = "Nothing was done. Ask whether these may run again, then pass confirm: true.";

/** A tool for each action that an assistant may do. */
export function addWrites(server: McpServer, context: OperatorToolContext): void {
  for (const [name, definition] of DEFINITIONS)
    if (!definition.isForPeople) addWrite(server, context, name, definition);
}

function addWrite(
  server: McpServer,
  context: OperatorToolContext,
  action: ActionName,
  definition: Definition,
): void {
  const { does, repeats = false, isDestructive = false, isIdempotent = false } = definition;
  const description = `${does} ${DATA}`;
  const inputSchema = z.strictObject({
    ...AGENT,
    ...shapeOf(definition),
    reason: text(500).describe("Why. It is stored in the audit log."),
    dryRun: z.boolean().optional().describe("Counts what would change, and changes nothing."),
    ...(repeats && { confirm: z.boolean().optional().describe(CONFIRM) }),
    cursor: text(4_096)
      .optional()
      .describe("For a filter: the cursor of the result before. Continue until there is none."),
  });
  const annotations = {
    ...{ readOnlyHint: false, destructiveHint: isDestructive },
    ...{ idempotentHint: isIdempotent, openWorldHint: true },
  };
  server.registerTool(
    action.replaceAll("-", "_"),
    { description, inputSchema, annotations },
    (input) =>
      answered(context, async () => {
        const { agent, name, reason, confirm, cursor, ...given } = input as unknown as AgentRef & {
          reason: string;
          dryRun?: boolean;
          confirm?: boolean;
          cursor?: string;
        };
        const isAsking = repeats && confirm !== true;
        const { dryRun = false, ...rest } = given;
        const result = await context.client.act(
          { agent, name },
          {
            action: actionOf(action, definition, rest),
            reason,
            ...((dryRun || isAsking) && { dryRun: true }),
            ...(cursor !== undefined && { cursor }),
          },
        );
        return isAsking && !dryRun ? { ...result, nothingDone: NOT_CONFIRMED } : result;
      }),
  );
}
