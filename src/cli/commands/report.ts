/** `perdure report`: what is wrong, once or again and again. */

import { setTimeout as delay } from "node:timers/promises";
import { plural } from "../../engine/operated/text.ts";
import { notAnswered } from "../../operator/api/report.ts";
import { type OperatorClient, OperatorError } from "../../operator/client.ts";
import { commandOf, quoted } from "../../operator/command-line.ts";
import type { AgentRef, Finding, Report } from "../../operator/protocol.ts";
import { agentOf } from "../agents.ts";
import {
  type Common,
  clientOf,
  EXIT,
  isPassing,
  note,
  noteRetry,
  onInterrupt,
  print,
  printJson,
  usageError,
} from "../context.ts";
import { jsonText, paint, plain, time } from "../print/text.ts";
import { COLLECTIONS } from "./lists.ts";

const RANK = { error: 0, warning: 1, info: 2 } as const;
const WATCH_S = 30;
const MAX_WATCH_S = 86_400;
const CLEAR = "\x1b[H\x1b[2J\x1b[3J";

type Options = Common & { readonly failOn: string; readonly watch?: string | true };

export async function report(options: Options): Promise<void> {
  const { failOn, json } = options;
  if (failOn !== "error" && failOn !== "warning") {
    const problem = `Invalid --fail-on ${JSON.stringify(failOn)}: expected error or warning.`;
    throw usageError(problem);
  }
  const reportNow = async () => {
    const found = await wholeReport(options);
    const fails = found.findings.some(({ severity }) => RANK[severity] <= RANK[failOn]);
    process.exitCode = fails ? EXIT.found : EXIT.ok;
    return found;
  };
  if (options.watch !== undefined) return watch(reportNow, secondsOf(options.watch), json);
  const found = await reportNow();
  if (json) return printJson(found);
  const text = textOf(found);
  if (text !== "") print(text);
}

/** On a terminal, the latest report. Elsewhere, and as JSON, each report whose findings are not those of the one before. */
async function watch(
  reportNow: () => Promise<Report>,
  seconds: number,
  json = false,
): Promise<never> {
  onInterrupt(() => Number(process.exitCode ?? EXIT.ok));
  const isScreen = process.stdout.isTTY && !json;
  for (let before: string | undefined; ; await delay(seconds * 1_000)) {
    try {
      const found = await reportNow();
      const now = JSON.stringify(found.findings);
      if (isScreen) process.stdout.write(CLEAR);
      if (isScreen || now !== before) {
        print(json ? jsonText(found) : `${time(found.at)}  each ${seconds} s\n\n${textOf(found)}`);
      }
      before = now;
    } catch (error) {
      if (!isPassing(error)) throw error;
      noteRetry(error);
    }
  }
}

function secondsOf(text: string | true): number {
  const seconds = text === true ? WATCH_S : Number(text);
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_WATCH_S) return seconds;
  throw usageError(
    `Invalid --watch ${JSON.stringify(text)}: expected a whole number of seconds from 1 to ${MAX_WATCH_S}.`,
  );
}

function textOf({ verdict, findings, agents }: Report): string {
  const lines: string[] = [];
  // Each agent reports the limits that all of them share.
  const groups = Map.groupBy(findings, (finding) =>
    finding.link.view === "limits" ? `${finding.code} ${finding.about}` : finding,
  );
  if (verdict === "healthy") {
    const notes = groups.size === 1 ? " 1 note:" : ` ${groups.size} notes:`;
    lines.push(
      `${paint("green", "healthy")}: ${plural(agents.length, "agent")}. Work starts, succeeds, is delivered, and runs on time.${groups.size > 0 ? notes : ""}`,
    );
  }
  for (const [finding, ...others] of groups.values()) {
    if (!finding) continue;
    const { agent, name, severity, title, cause, fix, evidence, link } = finding;
    const colour = severity === "error" ? "red" : severity === "warning" ? "yellow" : "dim";
    const more = others.length === 0 ? "" : ` and ${plural(others.length, "other agent")}`;
    lines.push(
      `${paint(colour, severity.toUpperCase())}  ${plain(title)}  (${plain(`${agent}/${name}`)}${more})`,
      `  ${plain(cause)}`,
    );
    if (evidence.lastError !== undefined) lines.push(`  Last error: ${plain(evidence.lastError)}`);
    if (evidence.ids.length > 0) lines.push(`  Ids: ${evidence.ids.map(plain).join(", ")}`);
    lines.push(`  What to do: ${plain(fix.text)}`);
    const command = fix.action
      ? `${commandOf({ agent, name }, fix.action, evidence.count)} --reason "..."`
      : showOf({ agent, name }, link);
    if (command) lines.push(`  ${paint("bold", `$ ${plain(command)}`)}`);
    lines.push("");
  }
  return lines.join("\n");
}

/** Where a person has to decide, the command that shows what about. */
function showOf({ agent, name }: AgentRef, { view, id }: Finding["link"]): string | undefined {
  if (id === undefined || !COLLECTIONS.some((each) => each === view)) return undefined;
  return `npx perdure show ${view} ${quoted(id)} --agent ${quoted(`${agent}/${name}`)}`;
}

/** As the report of all agents has it: an agent that fails is a finding. */
async function reportOfOne(client: OperatorClient, ref: AgentRef): Promise<Report> {
  try {
    const report = await client.agentReport(ref);
    const findings = report.findings.map((finding) => ({ ...finding, ...ref }));
    const isHealthy = findings.every(({ severity }) => severity === "info");
    const verdict = isHealthy ? "healthy" : "findings";
    return { at: report.at, verdict, agents: [{ ...ref, report }], findings };
  } catch (error) {
    if (!(error instanceof OperatorError) || !isOfAgent(error)) throw error;
    const asked = { ...ref, unreachable: error.message };
    const findings = [{ ...notAnswered(asked), ...ref }];
    return { at: Date.now(), verdict: "findings", agents: [asked], findings };
  }
}

/** Whether the agent has failed, and not the caller, the deployment or the way to it. */
const isOfAgent = ({ status, code }: OperatorError) =>
  code !== undefined && (status === 400 || status === 409 || status === 500 || status === 503);

async function wholeReport({ agent }: Common): Promise<Report> {
  const client = clientOf();
  if (agent !== undefined) {
    const ref = await agentOf(client, { agent });
    return reportOfOne(client, ref);
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
