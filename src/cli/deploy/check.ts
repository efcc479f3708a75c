/** `npx perdure check`: what the new code cannot take of the open work. */

import { CliError, clientOf, EXIT, note, print, printJson, usageError } from "../context.ts";
import { newAgents } from "./agents.ts";
import { checkConfiguration } from "./configuration.ts";
import { NewCode } from "./new-code.ts";
import {
  type Checked,
  gapLines,
  isError,
  type NotChecked,
  type Problem,
  problemLines,
  sorted,
  summaryOf,
} from "./problems.ts";
import { type NewProject, newProject } from "./project.ts";
import { askRunning, type Questions, questionsOf, type Running } from "./running.ts";
import { readSnapshot, type Snapshot, takeSnapshot } from "./snapshot.ts";

export type CheckOptions = {
  readonly from?: string;
  readonly snapshot?: string;
  readonly env?: string;
  readonly config?: string;
  readonly json?: boolean;
};

export async function check({
  from,
  snapshot: file,
  env,
  config,
  json,
}: CheckOptions): Promise<void> {
  if (from !== undefined && file !== undefined)
    throw usageError("Pass either --from or --snapshot, not both.");
  // A wrong folder is found before the deployment is asked.
  const project = newProject(process.cwd(), env, config);
  const snapshot = file === undefined ? await takeSnapshot(clientOf(from)) : readSnapshot(file);
  const found = await checked(project, snapshot);
  // A file says the same each time. A deployment may answer later.
  const isSilent = file === undefined && snapshot.notRead.some(({ id }) => id === undefined);
  process.exitCode = found.problems.some(isError)
    ? EXIT.found
    : isSilent
      ? EXIT.unreachable
      : EXIT.ok;
  if (json) return printJson(found);
  for (const line of [...problemLines(found.problems), ...gapLines(found.notChecked)]) print(line);
  print(summaryOf(found));
}

/** @throws CliError where the new code does not start */
async function checked(project: NewProject, snapshot: Snapshot): Promise<Checked> {
  const agents = newAgents(project);
  const { problems, notChecked } = checkConfiguration(project, agents, snapshot);
  const questions = questionsOf(project, agents, snapshot);
  const running = await ran(project, questions, problems.filter(isError));
  return {
    problems: sorted([...problems, ...running.problems]),
    checked: {
      agents: snapshot.agents.length,
      items: snapshot.agents.reduce((sum, { work }) => sum + work.length, 0),
      histories: running.histories,
      classes: running.classes,
    },
    notChecked: [...gapsOf(snapshot), ...notChecked, ...running.notChecked],
  };
}

/** @param errors of the configuration, because of which the code may not start. Wrangler waits where a bound class is gone */
async function ran(
  project: NewProject,
  questions: Questions,
  errors: readonly Problem[],
): Promise<Running> {
  const nothing: Running = { problems: [], notChecked: [], histories: 0, classes: 0 };
  if (questions.histories.length === 0 && questions.classes.size === 0) return nothing;
  note("Starting the new code in wrangler dev...");
  let code: NewCode;
  try {
    if (errors.some(({ problem }) => problem === "class-gone"))
      throw new CliError(EXIT.found, "The new code is not started, because a class is gone.");
    code = await NewCode.start(project);
  } catch (error) {
    if (errors.length === 0 || !(error instanceof CliError)) throw error;
    note(error.message);
    const why = "it was not replayed: the new code does not start, see the errors";
    const gap = ({ agent, history }: Questions["histories"][number]): NotChecked => {
      return { agent: agent.agent, name: agent.name, id: history.workflowId, why };
    };
    const classes = [...questions.classes.keys()].map((binding) => {
      return { agent: binding, name: "", why: "the new code does not start, see the errors" };
    });
    return { ...nothing, notChecked: [...questions.histories.map(gap), ...classes] };
  }
  try {
    return await askRunning(code, questions);
  } finally {
    code.stop();
  }
}

/** What the snapshot does not have. */
function gapsOf({ notInstalled, notRead, isCut, agents }: Snapshot): NotChecked[] {
  const cut = isCut === undefined ? [] : [`the snapshot is not complete: ${isCut}`];
  return [
    ...cut.map((why) => ({ agent: "", name: "", why })),
    ...[...notInstalled, ...notRead],
    ...agents.flatMap(({ agent, name, work, histories }) => {
      const known = new Set(histories.map(({ workflowId }) => workflowId));
      const noted = new Set(
        notRead.filter((one) => one.agent === agent && one.name === name).map(({ id }) => id),
      );
      return work
        .filter(({ kind, id }) => kind === "workflow" && !known.has(id) && !noted.has(id))
        .map(({ id }) => ({
          agent,
          name,
          id,
          why: "it has no history: it ended meanwhile, or its class records none",
        }));
    }),
  ];
}
