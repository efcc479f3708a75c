/** Commands that change nothing: report, agents, ls, show, tail, schedules. */

import { Argument, type Command, Option } from "commander";
import { allAgents } from "../../operator/pages.ts";
import { agentOf, nameOf } from "../agents.ts";
import { type Common, clientOf, note, print, printJson, usageError } from "../context.ts";
import { table } from "../print/table.ts";
import { COLLECTIONS, collectionOf, rowsOf } from "./lists.ts";
import { report } from "./report.ts";
import { show } from "./show.ts";
import { tail } from "./tail.ts";

const MAX_ITEMS = 100_000;

export function addReads(program: Command): void {
  program
    .command("report")
    .description(
      "what is wrong, why, and the command that fixes it; exits with 1 if there are findings",
    )
    .option("--agent <Class/name>", "only this agent")
    .option(
      "--fail-on <severity>",
      "exit with 1 only for errors (error), or also for warnings",
      "warning",
    )
    .option("--watch [seconds]", "again and again, by default each 30 seconds; Ctrl+C ends it")
    .option("--json", "as JSON")
    .action(report);
  program
    .command("agents")
    .description("the agents of the deployment")
    .option("--json", "as JSON")
    .action(agents);
  program
    .command("ls")
    .description(`list ${COLLECTIONS.join(", ")}`)
    .addArgument(new Argument("<list>", "which").choices(COLLECTIONS))
    .option("--agent <Class/name>", "which agent; by default the only one")
    .option("--filter <name=value...>", "e.g. status=error,aborted or metadata.user=42")
    .addOption(new Option("--limit <count>", "how many at most").argParser(countOf).default(50))
    .option("--json", "as JSON")
    .action(list);
  program
    .command("show")
    .description("one item; of a submission, what happened when")
    .argument("<list or submission>", "a list and an id, or the id of a submission")
    .argument("[id]", "of arrivals: source/id")
    .option("--agent <Class/name>", "which agent; by default the one that has it")
    .option("--json", "as JSON")
    .action(show);
  program
    .command("tail")
    .description("ends of submissions and dead letters, as they come; Ctrl+C ends it")
    .option("--agent <Class/name>", "only this agent")
    .option("--json", "a line of JSON for each")
    .action(tail);
  program
    .command("schedules")
    .description("scheduled tasks with their next runs")
    .option("--agent <Class/name>", "which agent; by default the only one")
    .option("--json", "as JSON")
    .action((options: Common) => list("tasks", { ...options, limit: 1_000 }));
}

function countOf(text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1 && count <= MAX_ITEMS) return count;
  throw usageError(
    `Invalid --limit ${JSON.stringify(text)}: expected a whole number from 1 to ${MAX_ITEMS}.`,
  );
}

async function agents({ json }: Common): Promise<void> {
  const all = await allAgents(clientOf());
  if (json) return printJson(all);
  const rows = all.map((ref) => [nameOf(ref)]);
  print(table(["AGENT"], rows));
}

type ListOptions = Common & { readonly filter?: readonly string[]; readonly limit: number };

async function list(name: string, options: ListOptions): Promise<void> {
  const collection = collectionOf(name);
  const client = clientOf();
  const ref = await agentOf(client, options);
  const filter = Object.fromEntries((options.filter ?? []).map(pairOf));
  const items: object[] = [];
  let cursor: string | undefined;
  do {
    const limit = Math.min(100, options.limit - items.length);
    const page = await client.list(ref, collection, { ...filter, limit, cursor });
    items.push(...page.items);
    cursor = page.cursor;
    if (cursor !== undefined && items.length >= 1_000 && items.length % 1_000 < 100)
      note(`${items.length} rows...`);
  } while (cursor !== undefined && items.length < options.limit);
  if (options.json) return printJson({ items, ...(cursor !== undefined && { cursor }) });
  if (items.length === 0) return note(`No ${name}.`);
  const { titles, rows } = rowsOf(collection, items);
  print(table(titles, rows));
  if (cursor !== undefined) note(`There are more: pass a --limit above ${options.limit}.`);
}

/** `name=value` of --filter. */
export function pairOf(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw usageError(
    `Invalid --filter ${JSON.stringify(text)}: expected name=value, e.g. status=error.`,
  );
}
