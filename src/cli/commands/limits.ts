/** `perdure limits`: what is used of the limits of the app, whichever agent is asked. */

import type { Command } from "commander";
import type { OperatorClient } from "../../operator/client.ts";
import { LISTS } from "../../operator/lists.ts";
import type { AgentRef, Collections } from "../../operator/protocol.ts";
import { oneOfEachClass } from "../agents.ts";
import { type Common, clientOf, note, print, printJson } from "../context.ts";
import { table } from "../print/table.ts";
import { addAction } from "./act.ts";
import { rowsOf } from "./lists.ts";

type State = Collections["limits"];

/** Keys of one agent that are printed; those of a limit by `ls limits --filter name=...`. */
const MOST_KEYS = 1_000;

export function addLimits(program: Command): void {
  const command = program
    .command("limits")
    .description("what is used of the limits that agents share, and what waits")
    .option("--agent <Class/name>", "which agent is asked; by default one of each class")
    .option("--json", "as JSON")
    .action(limits);
  addAction(command, "pause", "pause-limit");
  addAction(command, "resume", "resume-limit");
}

async function limits(options: Common): Promise<void> {
  const client = clientOf();
  const found = await oneOfEachClass(client, options, (ref) => statesOf(client, ref));
  // Classes may declare the same limit: its keeper has answered an agent of each.
  const ids = found.flatMap(({ answer }) =>
    answer.map((one) => [LISTS.limits.id(one), one] as const),
  );
  const states = [...new Map(ids).values()];
  if (options.json) return printJson({ items: states });
  if (states.length === 0) return note("No key of a limit is in use.");
  const { titles, rows } = rowsOf("limits", states);
  print(table(titles, rows));
}

async function statesOf(client: OperatorClient, ref: AgentRef): Promise<State[]> {
  const states: State[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.list(ref, "limits", { limit: 100, cursor });
    states.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined && states.length < MOST_KEYS);
  if (cursor !== undefined)
    note(`The first ${states.length} keys; others by perdure ls limits --filter name=...`);
  return states;
}
