/** Commands that change nothing: report, agents, ls, show, tail, schedules. */

import { setTimeout as delay } from "node:timers/promises";
import { Argument, type Command, Option } from "commander";
import { OperatorError } from "../../operator/client.ts";
import { commandOf, quoted } from "../../operator/command-line.ts";
import type { AgentRef, Collections, Details, Finding, Report } from "../../operator/protocol.ts";
import {
  agentOf,
  CliError,
  type Common,
  clientOf,
  EXIT,
  note,
  print,
  printJson,
} from "../context.ts";
import { table } from "../print/table.ts";
import { jsonText, paint, plain, status, time } from "../print/text.ts";
import { waterfall } from "../print/waterfall.ts";
import { COLLECTIONS, COLUMNS } from "./lists.ts";

const POLL_MS = 2_000;
const MAX_ITEMS = 100_000;
const RANK = { error: 0, warning: 1, info: 2 } as const;

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
    .argument("[id]", "of inbound deliveries: source/id")
    .option("--agent <Class/name>", "which agent; by default the only one")
    .option("--json", "as JSON")
    .action(show);
  program
    .command("tail")
    .description("ends of submissions and dead letters, as they come; Ctrl+C ends it")
    .option("--agent <Class/name>", "which agent; by default the only one")
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
  throw new CliError(
    EXIT.usage,
    `Invalid --limit ${JSON.stringify(text)}: expected a whole number from 1 to ${MAX_ITEMS}.`,
  );
}

async function report({ failOn, ...options }: Common & { readonly failOn: string }): Promise<void> {
  if (failOn !== "error" && failOn !== "warning") {
    const problem = `Invalid --fail-on ${JSON.stringify(failOn)}: expected error or warning.`;
    throw new CliError(EXIT.usage, problem);
  }
  const found = await wholeReport(options);
  const fails = found.findings.some(({ severity }) => RANK[severity] <= RANK[failOn]);
  process.exitCode = fails ? EXIT.found : EXIT.ok;
  if (options.json) return printJson(found);
  const { findings, agents } = found;
  if (found.verdict === "healthy") {
    const notes = findings.length === 1 ? " 1 note:" : ` ${findings.length} notes:`;
    print(
      `${paint("green", "healthy")}: ${agents.length} agents. Work starts, succeeds, is delivered, and runs on time.${findings.length > 0 ? notes : ""}`,
    );
  }
  for (const { agent, name, severity, title, cause, fix, evidence, link } of findings) {
    const colour = severity === "error" ? "red" : severity === "warning" ? "yellow" : "dim";
    print(
      `${paint(colour, severity.toUpperCase())}  ${plain(title)}  (${plain(`${agent}/${name}`)})`,
    );
    print(`  ${plain(cause)}`);
    if (evidence.lastError !== undefined) print(`  Last error: ${plain(evidence.lastError)}`);
    if (evidence.ids.length > 0) print(`  Ids: ${evidence.ids.map(plain).join(", ")}`);
    print(`  What to do: ${plain(fix.text)}`);
    const command = fix.action
      ? `${commandOf({ agent, name }, fix.action, evidence.count)} --reason "..."`
      : showOf({ agent, name }, link);
    if (command) print(`  ${paint("bold", `$ ${plain(command)}`)}`);
    print("");
  }
}

/** Where a person has to decide, the command that shows what about. */
function showOf({ agent, name }: AgentRef, { view, id }: Finding["link"]): string | undefined {
  if (id === undefined || !COLLECTIONS.some((each) => each === view)) return undefined;
  return `npx perdure show ${view} ${quoted(id)} --agent ${quoted(`${agent}/${name}`)}`;
}

async function wholeReport({ agent }: Common): Promise<Report> {
  const client = clientOf();
  if (agent !== undefined) {
    const ref = await agentOf(client, { agent });
    const found = await client.agentReport(ref);
    const findings = found.findings.map((finding) => ({ ...finding, ...ref }));
    const isHealthy = findings.every(({ severity }) => severity === "info");
    return {
      at: found.at,
      verdict: isHealthy ? "healthy" : "findings",
      agents: [{ ...ref, report: found }],
      findings,
    };
  }
  let whole = await client.report();
  for (let cursor = whole.cursor; cursor !== undefined; ) {
    note(`${whole.agents.length} agents asked...`);
    const next = await client.report({ cursor });
    cursor = next.cursor;
    const isHealthy = whole.verdict === "healthy" && next.verdict === "healthy";
    whole = {
      at: whole.at,
      verdict: isHealthy ? "healthy" : "findings",
      agents: [...whole.agents, ...next.agents],
      findings: [...whole.findings, ...next.findings],
    };
  }
  // Each page is sorted; the worst of all come first.
  const findings = whole.findings.toSorted((a, b) => RANK[a.severity] - RANK[b.severity]);
  return { ...whole, findings };
}

async function agents({ json }: Common): Promise<void> {
  const client = clientOf();
  const all: AgentRef[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await client.agents({ limit: 100, cursor });
    all.push(...page.items);
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  if (json) return printJson(all);
  print(
    table(
      ["AGENT"],
      all.map(({ agent, name }) => [plain(`${agent}/${name}`)]),
    ),
  );
}

type ListOptions = Common & { readonly filter?: readonly string[]; readonly limit: number };

async function list(name: string, options: ListOptions): Promise<void> {
  const collection = collectionOf(name);
  const client = clientOf();
  const ref = await agentOf(client, options);
  const filter = Object.fromEntries((options.filter ?? []).map(pairOf));
  const items: unknown[] = [];
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
  const columns = Object.entries(COLUMNS[collection]) as [string, (item: unknown) => string][];
  print(
    table(
      columns.map(([title]) => title),
      items.map((item) => columns.map(([, cell]) => cell(item))),
    ),
  );
  if (cursor !== undefined) note(`There are more: pass a --limit above ${options.limit}.`);
}

function collectionOf(name: string): keyof Collections {
  const found = COLLECTIONS.find((each) => each === name);
  if (found) return found;
  throw new CliError(
    EXIT.usage,
    `Unknown list ${JSON.stringify(name)}. Lists: ${COLLECTIONS.join(", ")}.`,
  );
}

/** `name=value` of --filter. */
export function pairOf(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new CliError(
    EXIT.usage,
    `Invalid --filter ${JSON.stringify(text)}: expected name=value, e.g. status=error.`,
  );
}

async function show(first: string, second: string | undefined, options: Common): Promise<void> {
  const collection = second === undefined ? "submissions" : collectionOf(first);
  const id = second ?? first;
  if (collection === "threads" || collection === "actions") {
    return showParts(collection, id, options);
  }
  const client = clientOf();
  const ref = await agentOf(client, options);
  const item = await client.inspect(ref, collection as keyof Details, id);
  if (item === null)
    throw new CliError(EXIT.notFound, `Nothing in ${collection} has the id ${JSON.stringify(id)}.`);
  const trace = collection === "submissions" ? await client.trace(ref, id) : undefined;
  const parts =
    collection === "tasks" ? (await client.parts(ref, "tasks/runs", id)).items : undefined;
  if (options.json)
    return printJson({ ...item, ...(trace && { trace }), ...(parts && { runs: parts }) });
  printFields(item);
  if (trace && trace.spans.length > 0)
    print(`\n${waterfall(trace, Date.now(), process.stdout.columns || 120)}`);
  if (parts) {
    const rows = parts.map((run) => [
      status(run.status),
      time(run.scheduledFor),
      run.cause,
      String(run.attempts),
      plain(run.error?.message ?? run.reason ?? ""),
    ]);
    print(`\n${table(["STATUS", "FOR", "CAUSE", "ATTEMPTS", "WHY"], rows)}`);
  }
}

async function showParts(
  collection: "threads" | "actions",
  id: string,
  options: Common,
): Promise<void> {
  if (collection === "actions") {
    throw new CliError(
      EXIT.usage,
      "The audit log has no more than `perdure ls actions --json` prints.",
    );
  }
  const client = clientOf();
  const ref = await agentOf(client, options);
  const { items } = await client.parts(ref, "threads/messages", id, { limit: 50 });
  if (options.json) return printJson(items);
  for (const { role, parts } of items.toReversed()) {
    print(
      `${paint("bold", plain(role))}: ${parts.map(({ type, text }) => plain(text ?? `[${type}]`)).join(" ")}`,
    );
  }
}

const IS_TIME = /(At|^at|^since|^next|For|Until)$/;

/** A value of that name, with times as texts, also inside of it. */
const readable = (name: string, value: unknown): unknown =>
  typeof value === "number" && IS_TIME.test(name) && value > 1e11 ? time(value) : value;

function printFields(item: object): void {
  const entries = Object.entries(item).filter(([, value]) => value !== undefined);
  const width = Math.max(...entries.map(([name]) => name.length)) + 2;
  for (const [name, value] of entries) {
    const shown = readable(name, value);
    const isStatus = name === "status" || name === "state";
    const inside = typeof shown === "string" ? shown : JSON.stringify(shown, readable);
    const text = isStatus ? status(shown) : plain(inside);
    print(`${name.padEnd(width)}${text}`);
  }
}

const ENDED = /^(completed|error|aborted|skipped)$/;
/** Of ids that were printed; older ones do not come again in the newest pages. */
const MAX_SEEN = 10_000;

async function tail(options: Common): Promise<void> {
  process.on("SIGINT", () => {
    process.stdout.write("\n");
    process.exit(EXIT.ok);
  });
  const client = clientOf();
  const ref = await agentOf(client, options);
  const seen = new Set<string>();
  const open = new Set<string>();
  let isFirst = true;
  for (let failures = 0; ; await delay(Math.min(POLL_MS * 2 ** failures, 30_000))) {
    try {
      const [submissions, dead] = await Promise.all([
        client.list(ref, "submissions", { limit: 100 }),
        client.list(ref, "dead-letters", { limit: 100 }),
      ]);
      const listed = new Set(submissions.items.map(({ submissionId }) => submissionId));
      const late = await Promise.all(
        [...open]
          .filter((id) => !listed.has(id))
          .map((id) => client.inspect(ref, "submissions", id)),
      );
      const all = [...late.filter((each) => each !== null), ...submissions.items.toReversed()];
      const lines = all.flatMap((each) => {
        const { submissionId, thread, completedAt, attempts } = each;
        if (!ENDED.test(each.status)) {
          open.add(submissionId);
          return [];
        }
        open.delete(submissionId);
        const text = `${time(completedAt)}  ${status(each.status)}  ${plain(submissionId)}  thread ${plain(thread)}, ${attempts} attempts  ${plain(each.error ?? "").slice(0, 200)}`;
        return [
          {
            key: `${submissionId} ${completedAt}`,
            at: completedAt ?? 0,
            text,
            json: each as object,
          },
        ];
      });
      for (const letter of dead.items) {
        const text = `${time(letter.diedAt)}  ${status("dead")}  ${plain(letter.id)}  ${plain(letter.lastError).slice(0, 200)}`;
        lines.push({ key: `${letter.id} ${letter.diedAt}`, at: letter.diedAt, text, json: letter });
      }
      const fresh = lines.filter(({ key }) => !seen.has(key)).sort((a, b) => a.at - b.at);
      for (const { key } of fresh) seen.add(key);
      for (const key of seen) if (seen.size > MAX_SEEN) seen.delete(key);
      for (const { text, json } of isFirst ? fresh.slice(-10) : fresh) {
        print(options.json ? jsonText(json) : text);
      }
      isFirst = false;
      failures = 0;
    } catch (error) {
      // A deployment that restarts answers again. Another token does not come by itself.
      if (!(error instanceof OperatorError) || (error.status !== 0 && error.status < 500))
        throw error;
      failures++;
      note(`${error.message}. Trying again...`);
    }
  }
}
