/** `perdure show`: one item with all that belongs to it. */

import { parsedJson } from "../../core/json.ts";
import type { OperatorClient } from "../../operator/client.ts";
import { LISTS, type Lists } from "../../operator/lists.ts";
import type { AgentRef, Details, Parts, WorkflowDetails } from "../../operator/protocol.ts";
import { elapsedText } from "../../operator/waterfall.ts";
import { agentWith } from "../agents.ts";
import { CliError, type Common, clientOf, EXIT, print, printJson, usageError } from "../context.ts";
import { table } from "../print/table.ts";
import { paint, plain, short, status, time } from "../print/text.ts";
import { waterfall } from "../print/waterfall.ts";
import { collectionOf } from "./lists.ts";

const MAX_STEPS = 100;
/** Characters of the input and of the output of a step. */
const MAX_VALUE = 300;
const IS_TIME = /(At|^at|^since|^next|For|[Uu]ntil|Occurrences)$/;

export async function show(
  first: string,
  second: string | undefined,
  options: Common,
): Promise<void> {
  const collection = second === undefined ? "submissions" : collectionOf(first);
  const id = second ?? first;
  if (isWhole(collection)) {
    const { title } = LISTS[collection];
    throw usageError(`${title}: there is no more than \`perdure ls ${collection} --json\` prints.`);
  }
  const client = clientOf();
  const ref = await agentWith(client, options, { collection, id });
  if (collection === "threads") return showThread(client, ref, id, options);
  const item = await client.inspect(ref, collection, id);
  if (item === null)
    throw new CliError(EXIT.notFound, `Nothing in ${collection} has the id ${JSON.stringify(id)}.`);
  const trace = collection === "submissions" ? await client.trace(ref, id) : undefined;
  const runs =
    collection === "tasks" ? (await client.parts(ref, "tasks/runs", id)).items : undefined;
  if (options.json) return printJson({ ...item, ...(trace && { trace }), ...(runs && { runs }) });
  for (const line of fieldLines(shownOf(collection, item))) print(line);
  if (trace && trace.spans.length > 0)
    print(`\n${waterfall(trace, Date.now(), process.stdout.columns || 120)}`);
  if (runs) print(`\n${table(RUN_TITLES, runs.map(runRow))}`);
  if (collection === "workflows") {
    for (const line of stepLines(item as WorkflowDetails)) print(line);
  }
}

/** Whether an item has no more than its list. */
function isWhole(name: keyof Lists): name is Exclude<keyof Lists, keyof Details | "threads"> {
  return name !== "threads" && LISTS[name].isWhole === true;
}

/** An item without what is printed below it, and with durations. */
function shownOf(collection: keyof Details, item: object): object {
  if (collection === "tasks") {
    const { lastRun, ...task } = item as Details["tasks"];
    const last = lastRun && `${lastRun.status}, for ${time(lastRun.scheduledFor)}`;
    return { ...task, ...(last !== undefined && { lastRun: last }) };
  }
  if (collection !== "workflows") return item;
  const { steps, output, createdAt, updatedAt, endedAt, ...workflow } = item as WorkflowDetails;
  return {
    ...{ ...workflow, createdAt, updatedAt },
    ...(endedAt !== undefined && { endedAt, took: elapsedText(endedAt - createdAt) }),
    ...(output !== undefined && { output: short(flat(output), MAX_VALUE) }),
    steps: steps.length,
  };
}

/** An item as lines of names and values, without JSON and without numbers for times. */
function fieldLines(item: object): string[] {
  const entries = Object.entries(item).filter(([, value]) => value !== undefined);
  const width = Math.max(...entries.map(([name]) => name.length)) + 2;
  return entries.map(([name, value]) => {
    const text = name === "status" || name === "state" ? status(value) : plain(flat(value, name));
    return `${name.padEnd(width)}${text}`;
  });
}

/** A value in one line: `by: ann, at: 2026-11-25T09:00:00Z, items: (id: 1), (id: 2)`. */
function flat(value: unknown, name = ""): string {
  if (typeof value === "number" && IS_TIME.test(name) && value > 1e11) return time(value);
  if (typeof value === "number" && name.endsWith("Ms")) return elapsedText(value);
  if (value === null) return "none";
  if (typeof value !== "object") return String(value);
  const inside = (part: unknown, of: string) => {
    const text = flat(part, of);
    return typeof part === "object" && part !== null && !Array.isArray(part) ? `(${text})` : text;
  };
  const parts = Array.isArray(value)
    ? value.map((part) => inside(part, name))
    : Object.entries(value).map(([of, part]) => `${of}: ${inside(part, of)}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}

const RUN_TITLES = ["STATUS", "FOR", "LATE", "TOOK", "CAUSE", "ATTEMPTS", "SUBMISSION", "WHY"];

function runRow(run: Parts["tasks/runs"]): string[] {
  const { firedAt, endedAt, lagMs, error, reason } = run;
  return [
    ...[status(run.status), time(run.scheduledFor), elapsedText(lagMs)],
    endedAt === undefined ? "" : elapsedText(endedAt - firedAt),
    ...[run.cause, String(run.attempts), plain(run.submissionId ?? "")],
    plain(error?.message ?? reason ?? ""),
  ];
}

function stepLines({ steps, createdAt }: WorkflowDetails): string[] {
  const lines = steps.slice(0, MAX_STEPS).flatMap((step) => {
    const { name, count, kind, startedAt, endedAt, input, output, error } = step;
    const { submissionIds = [], approvalId } = step;
    const took =
      endedAt === undefined
        ? `for ${elapsedText(Date.now() - startedAt)}`
        : `took ${elapsedText(endedAt - startedAt)}`;
    const title = plain(count === undefined ? name : `${name} (${count})`);
    const offset = elapsedText(Math.max(0, startedAt - createdAt));
    const details = {
      ...(input !== undefined && { input: short(textOf(input), MAX_VALUE) }),
      ...(output !== undefined && { output: short(textOf(output), MAX_VALUE) }),
      ...(error !== undefined && { error: short(error, MAX_VALUE) }),
      ...(approvalId !== undefined && { approval: approvalId }),
      ...(submissionIds.length > 0 && { submission: listOf(submissionIds) }),
    };
    return [
      "",
      `${paint("bold", title)}  ${plain(kind)}  ${status(step.status)}  ${time(startedAt)} (after ${offset}), ${took}`,
      ...fieldLines(details).map((line) => `  ${line}`),
    ];
  });
  const more = steps.length - MAX_STEPS;
  return more > 0 ? [...lines, "", `${more} more steps; all of them with --json`] : lines;
}

/** A value of a step: JSON, unless it is a text or was cut. */
function textOf(value: string): string {
  const json = parsedJson(value);
  return json === undefined ? value : flat(json);
}

const MAX_IDS = 5;
function listOf(ids: readonly string[]): string {
  const more = ids.length - MAX_IDS;
  return `${ids.slice(0, MAX_IDS).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

async function showThread(
  client: OperatorClient,
  ref: AgentRef,
  id: string,
  options: Common,
): Promise<void> {
  const { items } = await client.parts(ref, "threads/messages", id, { limit: 50 });
  if (options.json) return printJson(items);
  for (const { role, parts } of items.toReversed()) {
    print(
      `${paint("bold", plain(role))}: ${parts.map(({ type, text }) => plain(text ?? `[${type}]`)).join(" ")}`,
    );
  }
}
