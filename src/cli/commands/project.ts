/** Commands that need no deployment: explain, doctor and init. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Command, Option } from "commander";
import { InvalidOptionError } from "../../core/options/options.ts";
import { explainSchedule } from "../../scheduler/calendar/explain.ts";
import { ScheduleSyntaxError } from "../../scheduler/language/errors.ts";
import { clientOf, EXIT, note, print, printJson, usageError } from "../context.ts";
import { doctor } from "../doctor/doctor.ts";
import { INIT_HOSTS, type InitOptions, init } from "../init/init.ts";
import { paint, plain } from "../print/text.ts";
import { ProjectError } from "../project/config.ts";

export function addProject(program: Command): void {
  program
    .command("explain")
    .description("a schedule in words, its next runs, and what daylight saving does to them")
    .argument("<schedule>", 'e.g. "every weekday at 09:00 in Europe/London"')
    .option("--timezone <zone>", "for a schedule without one, e.g. Europe/London")
    .option("--count <number>", "how many runs", "5")
    .option("--after <time>", "from this time on, ISO 8601; by default now")
    .option("--json", "as JSON")
    .action(explain);
  program
    .command("doctor")
    .description(
      "check the project: configuration, bindings, migrations, versions, secrets, alarms; exits with 1 on an error",
    )
    .option("--env <name>", "an environment of the Wrangler configuration")
    .option("--json", "as JSON")
    .action(check);
  program
    .command("init")
    .description("add a first agent to the project, or show what makes its agents durable")
    .option("--name <Class>", "of the agent's class, e.g. Assistant")
    .addOption(new Option("--host <host>", "of a new agent").choices(INIT_HOSTS))
    .option("--apply", "change existing classes, instead of printing the diff")
    .option("--dry-run", "only say what it would do")
    .action(start);
}

type ExplainOptions = {
  readonly timezone?: string;
  readonly count: string;
  readonly after?: string;
  readonly json?: boolean;
};

function explain(schedule: string, { timezone, count, after, json }: ExplainOptions): void {
  try {
    const explained = explainSchedule(schedule, {
      count: Number(count),
      ...(timezone !== undefined && { timezone }),
      ...(after !== undefined && { after }),
    });
    if (json) printJson({ ...explained, toString: undefined });
    else print(String(explained));
  } catch (error) {
    const isUsage = error instanceof ScheduleSyntaxError || error instanceof InvalidOptionError;
    throw isUsage ? usageError(error.message) : error;
  }
}

/** Of this package: next to dist/ when it is installed, or the root of the repository. */
function manifestPath(): string {
  const near = [1, 3].map((up) =>
    fileURLToPath(new URL(`${"../".repeat(up)}package.json`, import.meta.url).href),
  );
  return near.find((file) => existsSync(file)) ?? (near[0] as string);
}

const SIGNS = { ok: "✓", warning: "!", error: "✗", skipped: "-" } as const;
const COLOURS = { ok: "green", warning: "yellow", error: "red", skipped: "dim" } as const;

async function check({ env, json }: { env?: string; json?: boolean }): Promise<void> {
  const results = await doctor({
    folder: process.cwd(),
    ...(env !== undefined && { environment: env }),
    client: clientOf(),
    manifest: manifestPath(),
  });
  const isFailed = results.some(({ level }) => level === "error");
  process.exitCode = isFailed ? EXIT.found : EXIT.ok;
  if (json) return printJson(results);
  for (const { check: what, level, text, remedy } of results) {
    print(`${paint(COLOURS[level], SIGNS[level])} ${what}: ${plain(text)}`);
    if (remedy !== undefined) print(`    ${plain(remedy)}`);
  }
}

function start(options: Omit<InitOptions, "folder" | "now">): void {
  try {
    const { folder, done, diff, byHand } = init({
      ...options,
      folder: process.cwd(),
      now: new Date(),
    });
    if (done.length > 0) note(options.dryRun ? `In ${folder} it would do this:` : `In ${folder}:`);
    else if (diff === "") print("Nothing to add. Pass --name to add another agent.");
    for (const line of done) print(`✓ ${line}`);
    if (diff !== "") {
      note("This makes existing classes durable. To write it, pass --apply:");
      print(diff.trimEnd());
    }
    if (byHand.length > 0) note("\nNext:");
    for (const line of byHand) note(`  ${line}`);
  } catch (error) {
    throw error instanceof ProjectError ? usageError(error.message) : error;
  }
}
