/** `npx perdure migrate`: lets a run continue with the code of another version, if a replay finds that it can. */

import type { Replay, WorkflowHistory } from "../../features/deploy/types.ts";
import { definitionOf } from "../../operator/catalog.ts";
import { quoted } from "../../operator/command-line.ts";
import type { Action } from "../../operator/protocol.ts";
import { agentWith } from "../agents.ts";
import { act } from "../commands/act.ts";
import { CliError, type Common, clientOf, EXIT, note, print, printJson } from "../context.ts";
import { historyOf } from "./deployed.ts";
import { NewCode, NoAnswerError } from "./new-code.ts";
import { isError, type Problem, problemLines, sorted } from "./problems.ts";
import { type NewProject, newProject } from "./project.ts";
import { asVersion } from "./versions.ts";

export type MigrateOptions = Common & {
  readonly to: string;
  readonly reason?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly env?: string;
  readonly config?: string;
};

export async function migrate(workflowId: string, options: MigrateOptions): Promise<void> {
  const { to, json, dryRun, env, config } = options;
  const project = newProject(process.cwd(), env, config);
  const client = clientOf();
  const place = { collection: "workflows", id: workflowId } as const;
  const ref = await agentWith(client, options, place, true);
  const history = await historyOf(client, ref, workflowId);
  if (history === null) {
    const remedy = `If it has ended with an UnknownVersionError, use npx perdure migrate-workflow ${quoted(workflowId)} ${quoted(to)}, and restart it from a step.`;
    const text = `No open workflow has the id ${JSON.stringify(workflowId)}. ${remedy}`;
    throw new CliError(EXIT.notFound, text);
  }
  if (history.isCut !== undefined) note(`Its history is not complete: ${history.isCut}.`);
  const asked = asVersion(history, to);
  if (!asked) {
    const why = "versions() does not export its class, or it has not started since then";
    throw new CliError(EXIT.found, `The workflow has reported no version: ${why}.`);
  }
  note("Replaying it in wrangler dev...");
  const { problems } = await replayed(project, asked);
  const found = problems.map(({ problem, severity, text, remedy }) => ({
    ...{ ...ref, kind: "workflow", id: workflowId, version: history.version },
    ...{ problem, severity, text, remedy },
  }));
  const isRefused = found.some(isError);
  if (isRefused) process.exitCode = EXIT.found;
  if (json && (isRefused || dryRun)) return printJson({ problems: sorted(found) });
  if (!json) show(found, to);
  if (isRefused || dryRun) return;
  const action: Action = { do: "migrate-workflow", workflowId, version: to };
  const { loss } = definitionOf("migrate-workflow");
  await act(action, { ...options, dryRun: false, agent: `${ref.agent}/${ref.name}` }, loss);
}

async function replayed(project: NewProject, history: WorkflowHistory): Promise<Replay> {
  const code = await NewCode.start(project);
  try {
    return await code.replay(history);
  } catch (error) {
    if (!(error instanceof NoAnswerError)) throw error;
    throw new CliError(EXIT.found, `It was not replayed, and not migrated: ${error.message}`);
  } finally {
    code.stop();
  }
}

function show(problems: readonly Problem[], to: string): void {
  for (const line of problemLines(problems)) print(line);
  if (problems.some(isError)) note("It was not migrated: the errors would strand it.");
  else print(`Replayed as version ${to}: no errors.`);
}
