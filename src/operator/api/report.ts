/** The report of all agents: each is asked, and one that does not answer is a finding. */

import { withTimeout } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import type { AgentRef, AgentReport, Finding, Page, Report } from "../protocol.ts";

/** Instances of agents, and the agents whose `names()` has failed. */
export type Listed = Page<AgentRef> & {
  readonly nameless: readonly { readonly agent: string; readonly error: unknown }[];
};

const PARALLEL = 8;
const RANK = { error: 0, warning: 1, info: 2 } as const;

type Asked = Report["agents"][number];

/**
 * The agents that were asked before `budgetMs` had passed, in their order: at least the first eight; and the classes whose
 * names could not be read.
 *
 * @param ask returns the report of one agent
 * @param send gets the report of each agent as it answers
 */
export async function reportOf(
  { items: refs, nameless }: Listed,
  ask: (ref: AgentRef) => Promise<AgentReport>,
  { timeoutMs, budgetMs }: { timeoutMs: number; budgetMs: number },
  now: number,
  send?: (report: Report) => void,
): Promise<Report> {
  const start = performance.now();
  const agents: Asked[] = [];
  const queue = refs.entries();
  const work = async () => {
    for (const [index, ref] of queue) {
      if (performance.now() - start >= budgetMs) return;
      const answered = { ...ref, ...(await asked(ask(ref), timeoutMs)) };
      agents[index] = answered;
      send?.(reportWith([answered], now));
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  for (const { agent, error } of nameless) {
    const { message } = failureOf(error);
    agents.push({ agent, name: "", unreachable: message });
    console.error(JSON.stringify({ perdure: "operator:failed", agent, message }));
  }
  return reportWith(agents, now);
}

/** Findings of all of them, errors first. */
function reportWith(agents: readonly Asked[], now: number): Report {
  const findings = agents.flatMap((each) => {
    const { agent, name } = each;
    const found = "report" in each ? each.report.findings : [notAnswered(each)];
    return found.map((finding) => ({ ...finding, agent, name }));
  });
  findings.sort((a, b) => RANK[a.severity] - RANK[b.severity]);
  const isHealthy = findings.every(({ severity }) => severity === "info");
  return { at: now, verdict: isHealthy ? "healthy" : "findings", agents, findings };
}

async function asked(answer: Promise<AgentReport>, timeoutMs: number) {
  try {
    const report = await withTimeout(answer, timeoutMs);
    if (Array.isArray(report?.findings)) return { report };
    return { unreachable: `operations.healthReport() returned ${preview(report)}` };
  } catch (error) {
    const { name, message } = failureOf(error);
    return { unreachable: message, errorName: name };
  }
}

/** The finding of an agent that did not answer. */
export function notAnswered(
  asked: AgentRef & { unreachable: string; errorName?: string },
): Finding {
  const { name, unreachable: lastError, errorName } = asked;
  const [title, cause, fix] =
    name === ""
      ? WITHOUT_NAMES
      : errorName === "FeatureNotInstalledError"
        ? // The first sentence says what is missing.
          ([...WITHOUT_OPERATIONS, lastError.slice(lastError.indexOf(". ") + 2)] as const)
        : errorName === "NotDurableError"
          ? WITHOUT_PERDURE
          : UNREACHABLE;
  return {
    code: "agent-unreachable",
    severity: "error",
    title,
    evidence: { count: 1, ids: [], lastError },
    cause,
    fix: { text: fix },
    link: { view: "agents" },
  };
}

/** Title, cause and remedy. */
const UNREACHABLE = [
  "The agent does not answer.",
  "It fails at its start, is overloaded, or runs a version of Perdure without this method.",
  "Do what the error says, or read the Worker's log, and deploy.",
] as const;
const WITHOUT_NAMES = [
  "The names of this agent's instances could not be read.",
  "names() of the option agents throws, hangs, or does not return a page.",
  "Correct what the error names, and deploy.",
] as const;
const WITHOUT_PERDURE = [
  "The agent's class has no Perdure.",
  "It is on no host of Perdure, or its Worker has an older version.",
  "Let the class extend a host such as DurableAgent, or take the agent out of the option agents, and deploy.",
] as const;
const WITHOUT_OPERATIONS = [
  "The agent's class does not install operations().",
  "Its report, its lists and its actions are in this feature.",
] as const;
