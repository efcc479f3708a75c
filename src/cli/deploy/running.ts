/** What the running new code cannot take of open work: replays of histories, and what its agents lack. */

import type { Need, OpenItem, WorkflowHistory } from "../../features/deploy/types.ts";
import { workflowsIn } from "../project/config.ts";
import type { NewAgents } from "./agents.ts";
import { type NewCode, NoAnswerError } from "./new-code.ts";
import type { NotChecked, Problem } from "./problems.ts";
import { progressOf } from "./progress.ts";
import type { NewProject } from "./project.ts";
import type { AgentWork, Snapshot } from "./snapshot.ts";
import { asContinued } from "./versions.ts";

/** Time limits: no further replay begins after `replaysMs`. A test lowers them. */
const LIMITS = { replaysMs: 300_000, progressMs: 5_000 };
/** Needs of one call. */
const MAX_NEEDS = 500;

/** The class does not install deployments(), so that it cannot be asked. */
const IS_NOT_INSTALLED = /\bFeatureNotInstalledError: deployments\./;

type Code = Pick<NewCode, "replay" | "lacks">;

export type Running = {
  readonly problems: readonly Problem[];
  readonly notChecked: readonly NotChecked[];
  /** How many were replayed. */
  readonly histories: number;
  /** How many classes have said what they lack. */
  readonly classes: number;
};

type Replayed = { readonly agent: AgentWork; readonly history: WorkflowHistory };
type Needed = { readonly agent: AgentWork; readonly item: OpenItem; readonly need: Need };

/** A class with open work. */
type Asked = {
  readonly className: string;
  readonly agents: AgentWork[];
  readonly needed: Needed[];
};

/** What there is to ask of the running code. */
export type Questions = {
  readonly histories: readonly Replayed[];
  /** By the binding of a class of agents. */
  readonly classes: ReadonlyMap<string, Asked>;
};

/** Leaves out what the configuration alone has a problem with. */
export function questionsOf(
  { settings, exports }: NewProject,
  agents: NewAgents,
  snapshot: Snapshot,
): Questions {
  const replayable = new Set(
    workflowsIn(settings).flatMap(({ binding, className }) =>
      exports(className) ? [binding] : [],
    ),
  );
  const histories = snapshot.agents.flatMap((agent) =>
    agent.histories
      .filter(({ workflow }) => replayable.has(workflow))
      .map((history) => ({ agent, history })),
  );
  const classes = new Map<string, Asked>();
  for (const agent of snapshot.agents) {
    const found = agents.classOf(agent.agent);
    if (!found || found.isElsewhere || !exports(found.className) || agent.work.length === 0)
      continue;
    const { binding, className } = found;
    const asked = classes.get(binding) ?? { className, agents: [], needed: [] };
    classes.set(binding, asked);
    asked.agents.push(agent);
    for (const item of agent.work) {
      for (const need of item.needs) {
        // Bindings are compared with the configuration.
        if (need.what === "binding" || need.what === "workflow") continue;
        asked.needed.push({ agent, item, need });
      }
    }
  }
  return { histories, classes };
}

export async function askRunning(
  code: Code,
  { histories, classes }: Questions,
  limits = LIMITS,
): Promise<Running> {
  const problems: Problem[] = [];
  const notChecked: NotChecked[] = [];
  let replayed = 0;
  let started = 0;
  for (const [binding, asked] of classes) {
    try {
      problems.push(...(await lackProblems(code, binding, asked.needed)));
      started++;
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      if (IS_NOT_INSTALLED.test(error.message)) problems.push(...routedProblems(asked, histories));
      else if (error.isAnswer) problems.push(...startProblems(asked, error.message));
      const [agent] = asked.agents;
      const why = `what its open work needs was not looked for: ${error.message}`;
      notChecked.push({ agent: agent?.agent ?? binding, name: "", why });
    }
  }
  const deadline = Date.now() + limits.replaysMs;
  const progress = progressOf("runs replayed", histories.length, limits.progressMs);
  // One at a time: a replay that takes long delays no other one beyond its limit.
  for (const each of histories) {
    const { agent, history } = each;
    const gap = (why: string) => {
      notChecked.push({ agent: agent.agent, name: agent.name, id: history.workflowId, why });
    };
    if (history.isCut !== undefined) gap(`its history is not complete: ${history.isCut}`);
    try {
      if (Date.now() > deadline)
        throw new NoAnswerError(
          `the replays of older runs took ${limits.replaysMs / 60_000} minutes`,
        );
      problems.push(...(await replayProblems(code, each)));
      replayed++;
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      if (error.hangs) problems.push(hangProblem(each));
      else gap(`it was not replayed: ${error.message}`);
    }
    progress();
  }
  return { problems, notChecked, histories: replayed, classes: started };
}

async function replayProblems(code: Code, { agent, history }: Replayed): Promise<Problem[]> {
  const { workflowId } = history;
  const item = agent.work.find(({ kind, id }) => kind === "workflow" && id === workflowId);
  const continued = asContinued(history, item);
  const { version } = continued;
  const { problems } = await code.replay(continued);
  return problems.map(({ problem, severity, text, remedy }) => ({
    ...{ agent: agent.agent, name: agent.name, kind: "workflow", id: workflowId, version },
    ...{ problem, severity, text, remedy },
  }));
}

/** The runtime is gone then, so the replays after it are not made. */
function hangProblem({ agent, history }: Replayed): Problem {
  const { workflowId, version } = history;
  return {
    ...{ agent: agent.agent, name: agent.name, kind: "workflow", id: workflowId, version },
    ...{ problem: "hangs", severity: "error" },
    text: "Its run() stopped the local runtime: it loops without an await, or takes too long between two steps.",
    remedy: "End the loop, then check again: the runs after it were not replayed.",
  };
}

const keyOf = ({ what, name }: Need) => `${what} ${name}`;

async function lackProblems(
  code: Code,
  binding: string,
  needed: readonly Needed[],
): Promise<Problem[]> {
  const distinct = [...new Map(needed.map(({ need }) => [keyOf(need), need])).values()];
  const lacking = new Set<string>();
  // Also where nothing is needed: the object has to start.
  for (let from = 0; from === 0 || from < distinct.length; from += MAX_NEEDS) {
    const lacked = await code.lacks(binding, distinct.slice(from, from + MAX_NEEDS));
    for (const need of lacked) lacking.add(keyOf(need));
  }
  return needed
    .filter(({ need }) => lacking.has(keyOf(need)))
    .map(({ agent, item, need }) => ({
      ...{ agent: agent.agent, name: agent.name, kind: item.kind, id: item.id },
      ...{ version: item.version, problem: `${need.what}-gone` },
      ...(item.kind === "task" ? armedProblem(need) : missingProblem(need)),
    }));
}

function missingProblem(need: Need): Pick<Problem, "severity" | "text" | "remedy"> {
  const text = `It needs the ${need.what} ${need.name}, which the class of its agent does not have.`;
  return { severity: "error", text, remedy: remedyOf(need) };
}

/** A deploy may remove an armed task: what it has accepted is an item of its own. */
function armedProblem({ name }: Need): Pick<Problem, "severity" | "text" | "remedy"> {
  return {
    severity: "warning",
    text: `The task ${name} is armed, and the class of its agent does not declare it: the deploy pauses it.`,
    remedy: `Nothing to remove it: without open runs, its history is deleted after 30 days by default. Otherwise declare ${name} again.`,
  };
}

/** Runs that versions() continues ask their agent for their version. */
function routedProblems({ agents }: Asked, histories: readonly Replayed[]): Problem[] {
  const need: Need = { what: "feature", name: "deployments" };
  return histories
    .filter(({ agent, history }) => agents.includes(agent) && history.version !== null)
    .map(({ agent, history: { workflowId: id, version } }) => ({
      ...{ agent: agent.agent, name: agent.name, kind: "workflow", id, version },
      ...{ problem: "feature-gone", severity: "error" },
      text: "Its version is asked of deployments(), which the class of its agent does not install.",
      remedy: remedyOf(need),
    }));
}

function startProblems({ className, agents }: Asked, why: string): Problem[] {
  return agents.map(({ agent, name, version }) => ({
    ...{ agent, name, kind: "class", id: className, version },
    ...{ problem: "class-fails", severity: "error" },
    text: `A new object of the class ${className} does not start here: ${why}`,
    remedy:
      "Correct the class, or give it here what it needs, e.g. a secret in .dev.vars. Where it does not start, no work goes on.",
  }));
}

function remedyOf({ what, name }: Need): string {
  const until = "until npx perdure drain says that no open work needs it";
  const keep: Readonly<Record<string, string>> = {
    tool: `Keep the tool ${name} beside the new one ${until}`,
    task: `Keep the task ${name} in getScheduledTasks() until its open runs have ended: npx perdure pause-task stops new ones. To drop them, deploy and run npx perdure remove-task`,
    method: `Keep the method ${name}() ${until}`,
    feature: `Keep ${name}() in the features of the class ${until}`,
  };
  return `${keep[what] ?? `Keep ${name} ${until}`}.`;
}
