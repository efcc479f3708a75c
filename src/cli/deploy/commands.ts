/** Commands for deploys: snapshot, check, drain and migrate. */

import type { Command } from "commander";
import { check } from "./check.ts";
import { drain } from "./drain.ts";
import { migrate } from "./migrate.ts";
import { snapshot } from "./snapshot.ts";

const FROM = ["--from <url>", "the address of the operator API, instead of PERDURE_URL"] as const;
const ENV = ["--env <name>", "an environment of the Wrangler configuration"] as const;
const CONFIG = [
  "--config <file>",
  "a Wrangler configuration, such as the one that a build has written",
] as const;

export function addDeploys(program: Command): void {
  program
    .command("snapshot")
    .description("write the open work of all agents as JSON, for check")
    .option(...FROM)
    .option("--out <file>", "write it to this file, instead of printing it")
    .action(snapshot);
  program
    .command("check")
    .description(
      "what the new code in this folder cannot take of the open work; exits with 1 on an error",
    )
    .option(...FROM)
    .option("--snapshot <file>", "what snapshot has written, instead of asking the deployment")
    .option(...ENV)
    .option(...CONFIG)
    .option("--json", "as JSON")
    .action(check);
  program
    .command("drain")
    .description("the open work of each version, and which versions are safe to delete")
    .option(...FROM)
    .option("--watch", "each 30 seconds, until nothing of older versions is open; Ctrl+C ends it")
    .option("--json", "as JSON")
    .action(drain);
  const command = program
    .command("migrate")
    .description("let a workflow continue with the code of another version, after a replay")
    .argument("<workflowId>", "the id of the workflow")
    .requiredOption("--to <version>", "the version")
    .option(...ENV)
    .option(...CONFIG)
    .option("--dry-run", "only replay it")
    .option("--yes", "do not ask")
    .option("--reason <text>", "why: it is recorded")
    .option("--agent <Class/name>", "which agent; by default the only one, or the one that has it")
    .option("--json", "as JSON")
    .action((workflowId: string) => migrate(workflowId, command.opts()));
}
