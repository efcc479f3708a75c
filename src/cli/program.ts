/** The command line for operators. */

import tab from "@bomb.sh/tab/commander";
import { Command, CommanderError } from "commander";
import { addActions } from "./commands/act.ts";
import { addLimits } from "./commands/limits.ts";
import { addProject } from "./commands/project.ts";
import { addReads } from "./commands/read.ts";
import { allowHttp, EXIT, endOf, usageError } from "./context.ts";
import { addDeploys } from "./deploy/commands.ts";
import { jsonText, plain } from "./print/text.ts";

/** The script of the library runs what is typed, `$(...)` included, at each Tab. */
const BASH_COMPLETION = `# bash completion for perdure
_perdure() {
  local line word=\${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS= read -r line; do
    line=\${line%%$'\\t'*}
    [[ $line == :* || $line != "$word"* ]] || COMPREPLY+=("$line")
  done < <(perdure complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _perdure perdure
`;

/** Runs the command of `process.argv`. Sets `process.exitCode`. */
export async function runCommand(): Promise<void> {
  const program = new Command("perdure")
    .description(
      "Operate agents with Perdure. The operator API is at PERDURE_URL, its token in PERDURE_TOKEN.",
    )
    .showSuggestionAfterError()
    .showHelpAfterError("(perdure --help has all commands)")
    .option("--allow-http", "send PERDURE_TOKEN over http: to a host that is not local")
    .hook("preAction", (root) => allowHttp(root.opts<{ allowHttp?: boolean }>().allowHttp === true))
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(text) });
  addReads(program);
  addActions(program);
  addLimits(program);
  addDeploys(program);
  addProject(program);
  tab(program, { completionCommandName: "completion" });

  try {
    if (process.argv.some((word: string) => /^--token(=|$)/.test(word))) {
      const why = "a command line is visible to others and stays in the shell's history";
      throw usageError(`--token is not accepted, because ${why}. Set PERDURE_TOKEN.`);
    }
    const [, , verb, shell] = process.argv;
    if (verb === "completion" && shell === "bash") process.stdout.write(BASH_COMPLETION);
    else await program.parseAsync();
  } catch (error) {
    const { code, text } = endOf(error);
    process.exitCode = code;
    if (process.argv.includes("--json") && code !== EXIT.ok) {
      process.stdout.write(`${jsonText({ error: { code, message: text } })}\n`);
    }
    // The library has printed its own.
    if (!(error instanceof CommanderError)) {
      process.stderr.write(`perdure: ${text.split("\n").map(plain).join("\n")}\n`);
    }
  }
}
