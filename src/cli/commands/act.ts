/** Commands that change something. Each is recorded in the agent's audit log with its reason. */

import type { Command } from "commander";
import { parsedJson } from "../../core/json.ts";
import type { Definition } from "../../engine/operated/catalog.ts";
import type { RunsAgain } from "../../engine/operated/effect.ts";
import { type ActionName, DEFINITIONS, definitionOf } from "../../operator/catalog.ts";
import { type OperatorClient, OperatorError } from "../../operator/client.ts";
import { TIMES } from "../../operator/command-line.ts";
import { actedPages } from "../../operator/pages.ts";
import type { Action, AgentRef, OperateResult } from "../../operator/protocol.ts";
import { agentOf, agentsOf, agentWith, nameOf, oneOfEachClass, type Place } from "../agents.ts";
import {
  type Common,
  clientOf,
  EXIT,
  NOT_INSTALLED,
  note,
  print,
  printJson,
  question,
  usageError,
} from "../context.ts";
import { plain } from "../print/text.ts";
import { pairOf } from "./read.ts";

type Options = Common & {
  readonly reason?: string;
  readonly filter?: readonly string[];
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly expect?: string;
  readonly yes?: boolean;
  readonly payload?: string;
  readonly from?: string;
  readonly fromFailed?: boolean;
  readonly fromStart?: boolean;
  readonly allAgents?: boolean;
  readonly to?: string;
  readonly count?: string;
};

/** Of what a filter selects, these are shown before it is changed. */
const MAX_ROWS = 20;

type Field = Definition["fields"][string];

/** @param field of an action */
function optionsOf(command: Command, field: string, [kind, means]: Field): Command {
  if (kind === "time") return command.requiredOption(`--${field} <time>`, `${means}; ISO 8601`);
  if (kind === "json") return command.option(`--${field} <json>`, means);
  return command
    .option("--from <step>", means)
    .option("--from-failed", "from the step that failed, or at which the run stands")
    .option("--from-start", "from the beginning, which needs no option without --filter")
    .option("--count <number>", "which of the steps of this name");
}

/** A field of an action that is no argument of the command; undefined if it is left out. */
function optionOf(options: Options, field: string, kind: string): unknown {
  if (kind === "time") return instantOf(`--${field}`, options[field as "from" | "to"] ?? "");
  if (kind === "json") return options.payload === undefined ? undefined : jsonOf(options.payload);
  const { from, fromFailed = false, fromStart = false, count } = options;
  if (Number(from !== undefined) + Number(fromFailed) + Number(fromStart) > 1)
    throw usageError("Pass either --from or --from-failed, or --from-start.");
  if (fromFailed) return "failed";
  if (fromStart) return "start";
  if (from === undefined) return undefined;
  return { name: from, ...(count !== undefined && { count: Number(count) }) };
}

const isArgument = ([, [kind]]: readonly [string, Field]) => /^(id|key|url)$/.test(kind);

/** @param run does an action; a test looks at it */
export function addActions(program: Command, run: typeof act = act): void {
  for (const [name] of DEFINITIONS) addAction(program, name, name, run);
}

/** @param verb how the command is called */
export function addAction(program: Command, verb: string, name: ActionName, run = act): void {
  const { does, fields, filter, loss, repeats } = definitionOf(name);
  const command = program.command(verb).description(does);
  const all = Object.entries(fields);
  for (const [field, [kind, means]] of all.filter(isArgument))
    command.argument(filter || kind === "key" ? `[${field}]` : `<${field}>`, means);
  if (filter) {
    command
      .option("--filter <name=value...>", "all that match, e.g. status=error")
      .option("--all", "all there are")
      .option("--all-agents", "in all agents")
      .option("--dry-run", repeats ? "only show what runs again" : "only count them")
      .option("--expect <count>", "warn where another number would change");
  }
  if (filter || loss !== undefined) command.option("--yes", "do not ask");
  for (const [name, field] of all.filter((one) => !isArgument(one)))
    optionsOf(command, name, field);
  command
    .option("--reason <text>", "why: it is recorded")
    .option("--agent <Class/name>", "which agent; by default the only one, or the one that has it")
    .option("--json", "as JSON")
    .action(async (...given: unknown[]) => {
      const options = command.optsWithGlobals<Options>();
      const values = given.slice(0, command.registeredArguments.length);
      await run(actionOf(name, values as (string | undefined)[], options), options, loss);
    });
}

/** The action that a command line means. @throws CliError */
function actionOf(
  name: ActionName,
  values: readonly (string | undefined)[],
  options: Options,
): Action {
  const { fields: named, filter } = definitionOf(name);
  const all = Object.entries(named);
  const fields = all.filter(isArgument).map(([field]) => field);
  const required = all.filter(([, [kind]]) => kind === "id" || kind === "url").length;
  const given = values.filter((value) => value !== undefined);
  const isMany = options.filter !== undefined || options.all === true;
  if (isMany && given.length > 0)
    throw usageError(`Pass either ${fields.join(" and ")}, or --filter.`);
  if (isMany) {
    const step = "step" in named ? optionOf(options, "step", "step") : undefined;
    const filter = filterOf(options.filter ?? []);
    return { do: name, filter, ...(step !== undefined && { step }) } as unknown as Action;
  }
  if (given.length < required) {
    const remedy = filter ? ", --filter name=value, or --all" : "";
    throw usageError(`Missing ${fields.slice(given.length).join(" and ")}. Pass it${remedy}.`);
  }
  const found = all.map((one) => {
    const [field, [kind]] = one;
    return [
      field,
      isArgument(one)
        ? (values[fields.indexOf(field)] ?? (kind === "key" ? "" : undefined))
        : optionOf(options, field, kind),
    ];
  });
  const target = Object.fromEntries(found.filter(([, value]) => value !== undefined));
  return { do: name, ...target } as Action;
}

/** Lists are separated by commas; a value that is JSON, and no text, is read as such. */
function filterOf(pairs: readonly string[]): Record<string, unknown> {
  const filter: Record<string, unknown> = {};
  for (const [name, value] of pairs.map(pairOf)) {
    if (name.startsWith("metadata.")) {
      filter.metadata = {
        ...(filter.metadata as object),
        [name.slice("metadata.".length)]: parsedOf(value),
      };
    } else if (TIMES.has(name) && /^\d{4}-/.test(value)) filter[name] = instantOf(name, value);
    else
      filter[name] =
        LISTS.has(name) && value.includes(",") && !/^["[]/.test(value)
          ? value.split(",")
          : parsedOf(value);
  }
  return filter;
}

const LISTS = new Set(["status", "verdict", "state", "id"]);

function parsedOf(text: string): unknown {
  return /^(true|false|-?\d|[[{"])/.test(text) ? (parsedJson(text) ?? text) : text;
}

function jsonOf(text: string): unknown {
  const value = parsedJson(text);
  if (value !== undefined) return value;
  throw usageError(`Invalid --payload ${plain(text)}: expected JSON, e.g. '{"amount":5}'.`);
}

function instantOf(option: string, text: string): number {
  const at = Date.parse(text);
  if (!Number.isNaN(at)) return at;
  throw usageError(
    `Invalid ${option} ${JSON.stringify(text)}: expected a time such as 2026-11-01T09:00:00Z.`,
  );
}

export async function act(action: Action, options: Options, loss?: string): Promise<void> {
  const { json = false, dryRun = false } = options;
  const client = clientOf();
  const refs = await agentsFor(client, action, options);
  if ("filter" in action) {
    if (await previewAll(client, refs, action, options)) return;
  } else if (loss !== undefined) {
    const { do: verb, ...target } = action;
    const [id] = Object.values(target);
    if (definitionOf(verb).repeats && (await previewOne(client, refs[0], action, options))) return;
    await confirm(`${verb} ${plain(id)}: ${loss}. Continue? [y/N] `, options);
  }
  if (dryRun) throw usageError(`${action.do} of one item has no --dry-run.`);
  const reason = options.reason ?? (await question("Reason: "));
  if (!reason)
    throw usageError(
      'Missing --reason. It is recorded in the audit log, e.g. --reason "the provider is back".',
    );
  let count = 0;
  const failed: OperateResult["failed"][number][] = [];
  let result: OperateResult | undefined;
  for (const ref of refs) {
    for await (const page of actedPages(client, ref, { action, reason })) {
      if (result === undefined || page.outcome === "done") result = page;
      count += page.count;
      failed.push(...page.failed);
      if (page.cursor !== undefined) note(`${count} done...`);
    }
  }
  if (!result) return;
  const isFailed = result.outcome === "failed" || failed.length > 0;
  if (isFailed) process.exitCode = EXIT.found;
  else if (result.outcome === "not-found") process.exitCode = EXIT.notFound;
  else process.exitCode ??= EXIT.ok;
  if (json) return printJson({ ...result, count, failed });
  const { status, state } = (result.after ?? {}) as { status?: unknown; state?: unknown };
  const now = status ?? state;
  const words = {
    done: `Done: ${count} changed.`,
    unchanged: `Nothing has changed${now === undefined ? "" : `: it is ${plain(now)}`}.`,
    "not-found": "It does not exist.",
    failed: "It failed.",
  };
  print(words[result.outcome]);
  for (const { id, error } of failed) note(`${plain(id)}: ${plain(error)}`);
}

/**
 * Counts what would change, shows the first of it, and asks.
 *
 * @param refs loses agents that do not answer, where there are several
 * @returns whether the command ends with that
 */
async function previewAll(
  client: OperatorClient,
  refs: AgentRef[],
  action: Action,
  options: Options,
): Promise<boolean> {
  const { json = false, dryRun = false } = options;
  let expected = 0;
  const rows: NonNullable<OperateResult["rows"]>[number][] = [];
  const others = refs.length > 1;
  for (const ref of [...refs]) {
    try {
      const found = await countOf(client, ref, action);
      expected += found.count;
      rows.push(...found.rows.slice(0, MAX_ROWS - rows.length));
      if (others && found.count > 0) note(`${nameOf(ref)}: ${found.count}`);
    } catch (error) {
      if (!others || !(error instanceof OperatorError)) throw error;
      refs.splice(refs.indexOf(ref), 1);
      // It has no such runs, or has gone.
      if (error.status === NOT_INSTALLED || error.status === 404) continue;
      note(`${nameOf(ref)} is left out: ${plain(error.message)}`);
      process.exitCode = EXIT.unreachable;
    }
  }
  if (options.expect !== undefined && Number(options.expect) !== expected)
    note(`Warning: ${expected} would change, and --expect says ${plain(options.expect)}.`);
  if (!json) showRows(rows, expected);
  if (dryRun) {
    if (json) printJson({ count: expected, rows });
    else print(`${expected} would change.`);
    return true;
  }
  if (expected === 0) {
    if (json) printJson({ count: 0, failed: [] });
    else note("Nothing matches.");
    return true;
  }
  await confirm(`${action.do}: ${expected} would change. Continue? [y/N] `, options);
  return false;
}

/** Shows what runs again. @returns whether the command ends with that */
async function previewOne(
  client: OperatorClient,
  ref: AgentRef,
  action: Action,
  { json = false, dryRun = false }: Options,
): Promise<boolean> {
  const dry = await client.act(ref, { action, reason: "Dry run", dryRun: true });
  if (dryRun && json) printJson(dry);
  else if (dry.runsAgain && !json) note(againText(dry.runsAgain));
  for (const { id, error } of dry.failed) note(`${plain(id)}: ${plain(error)}`);
  if (dryRun && dry.outcome === "not-found") process.exitCode = EXIT.notFound;
  if (dryRun && dry.outcome === "failed") process.exitCode = EXIT.found;
  return dryRun;
}

/** What a restart runs again, in one line. */
function againText({ from, steps, count, isComplete }: RunsAgain): string {
  const names = steps.slice(0, MAX_ROWS).map(({ name, kind }) => `${plain(name)} (${kind})`);
  if (count > names.length) names.push(`and ${count - names.length} more`);
  const what = count === 0 ? "nothing runs again" : `runs again: ${names.join(", ")}`;
  const where = from === null ? "From the beginning" : `From ${plain(from)}`;
  const gap = isComplete ? "" : ". The platform has not listed its steps: others may run again";
  return `${where}, ${what}${gap}.`;
}

/** The agents of an action, at least one. */
async function agentsFor(
  client: OperatorClient,
  action: Action,
  options: Options,
): Promise<[AgentRef, ...AgentRef[]]> {
  if ("filter" in action) {
    if (!options.allAgents) return [await agentOf(client, options)];
    if (options.agent !== undefined) throw usageError("Pass either --agent or --all-agents.");
    return (await agentsOf(client, options)) as [AgentRef, ...AgentRef[]];
  }
  if (!("limit" in action)) return [await agentWith(client, options, placeOf(action), true)];
  const { limit: name } = action;
  const ask = (ref: AgentRef) => client.list(ref, "limits", { name, limit: 1 });
  // The limit is that of all agents: any of them pauses it.
  const [{ ref }] = await oneOfEachClass(client, options, ask, 1);
  return [ref];
}

/** The item that an action is about. */
function placeOf(action: Exclude<Action, { filter: object } | { limit: string }>): Place {
  if ("submissionId" in action) return { collection: "submissions", id: action.submissionId };
  if ("deliveryId" in action) return { collection: "dead-letters", id: action.deliveryId };
  if ("approvalId" in action) return { collection: "approvals", id: action.approvalId };
  if ("url" in action) return { collection: "endpoints", id: action.url };
  if ("taskId" in action) return { collection: "tasks", id: action.taskId };
  if ("workflowId" in action) return { collection: "workflows", id: action.workflowId };
  if ("thread" in action) return { collection: "threads", id: action.thread };
  return { collection: "inbound", id: `${action.source}/${action.id}` };
}

/** How many would change, and the first of them. */
async function countOf(client: OperatorClient, ref: AgentRef, action: Action) {
  let count = 0;
  const rows: NonNullable<OperateResult["rows"]>[number][] = [];
  for await (const page of actedPages(client, ref, { action, reason: "Dry run", dryRun: true })) {
    count += page.count;
    rows.push(...(page.rows ?? []).slice(0, MAX_ROWS - rows.length));
  }
  return { count, rows };
}

function showRows(rows: NonNullable<OperateResult["rows"]>, count: number): void {
  for (const { id, error, runsAgain } of rows) {
    note(`  ${plain(id)}${error && `: ${plain(error)}`}`);
    if (runsAgain) note(`    ${againText(runsAgain)}`);
  }
  if (count > rows.length) note(`  and ${count - rows.length} more`);
}

/** @throws CliError where the answer is no, or there is no terminal */
async function confirm(text: string, { yes = false }: Options): Promise<void> {
  if (yes) return;
  const answer = await question(text);
  if (answer === undefined)
    throw usageError(
      `${text.replace(" Continue? [y/N] ", "")} Pass --yes to do it without a terminal.`,
    );
  if (!/^y(es)?$/i.test(answer)) throw usageError("Nothing was changed.");
}
