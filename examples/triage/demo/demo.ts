/** The command of the demo: arguments, deadline, exit code and cleanup. */

import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Runtime } from "../../runtime.ts";
import { loadFeed } from "./feed.ts";
import { Progress } from "./report.ts";
import { run } from "./scenario.ts";

const EXAMPLE = fileURLToPath(new URL("..", import.meta.url).href);
const OFFLINE = "offline-rules";
const PROVIDER_KEYS: Record<string, string> = {
  openai: "OPENAI_API_KEY",
  anthropic: "ANTHROPIC_API_KEY",
};
const OFFLINE_TIMEOUT_S = 240;
const PROVIDER_TIMEOUT_S = 900;
const LOG_LINES = 25;
const EXIT_USAGE = 2;

const HELP = `Usage: npm run demo -- [options]

Posts every issues, issue_comment and pull_request payload of @octokit/webhooks-examples, signed, to a local Cloudflare
runtime. Each starts one durable workflow: a model triages it, critical ones wait for approval, the labels are written.
Then every delivery is posted a second time, to show that nothing runs twice.

  --crash              kill the runtime with SIGKILL in the middle of running turns, twice, and go on from its disk
  --model <name>       ${OFFLINE} (default: plain rules, no network), or a provider's model with the key in the environment:
                       openai/<model> with OPENAI_API_KEY, anthropic/<model> with ANTHROPIC_API_KEY
  --timeout <seconds>  give up after this long (default ${OFFLINE_TIMEOUT_S}, with a provider's model ${PROVIDER_TIMEOUT_S})
  --help               this text

Exit code: 0 when every workflow completed and nothing ran twice, 1 otherwise, ${EXIT_USAGE} for a wrong option.`;

interface Options {
  crash: boolean;
  model: string;
  key: Record<string, string>;
  timeoutS: number;
}

class UsageError extends Error {}

function readOptions(): Options | "help" {
  const { values } = parseArgs({
    options: {
      crash: { type: "boolean", default: false },
      model: { type: "string", default: OFFLINE },
      timeout: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return "help";
  const key = keyFor(values.model);
  const timeoutS = Number(
    values.timeout ?? (values.model === OFFLINE ? OFFLINE_TIMEOUT_S : PROVIDER_TIMEOUT_S),
  );
  if (!(timeoutS > 0))
    throw new UsageError(`Invalid --timeout "${values.timeout}": expected a number of seconds.`);
  return { crash: values.crash, model: values.model, key, timeoutS };
}

function keyFor(model: string): Record<string, string> {
  if (model === OFFLINE) return {};
  const [provider = "", name = ""] = model.split(/\/(.*)/s);
  const variable = Object.hasOwn(PROVIDER_KEYS, provider) ? PROVIDER_KEYS[provider] : undefined;
  if (!variable || name === "") {
    const known = Object.keys(PROVIDER_KEYS).map((known) => `${known}/<model>`);
    throw new UsageError(`Unknown --model "${model}". Use ${[OFFLINE, ...known].join(", ")}.`);
  }
  const value = process.env[variable];
  if (!value)
    throw new UsageError(
      `--model ${model} needs the environment variable ${variable}, which is not set.`,
    );
  return { [variable]: value };
}

async function main(options: Options): Promise<number> {
  const adminToken = randomBytes(24).toString("hex");
  const webhookSecret = randomBytes(24).toString("hex");
  const runtime = new Runtime(EXAMPLE, {
    ...options.key,
    MODEL: options.model,
    ADMIN_TOKEN: adminToken,
    WEBHOOK_SECRET: webhookSecret,
  });
  cleanUpOnExit(runtime);
  const progress = new Progress();
  const stop = new AbortController();
  const deadline = setTimeout(
    () => stop.abort(new Error(`The demo was not through after ${options.timeoutS} s.`)),
    options.timeoutS * 1000,
  );
  try {
    const feed = await loadFeed(webhookSecret);
    introduce(options, feed.length);
    const offline = options.model === OFFLINE;
    const problems = await run({
      runtime,
      feed,
      adminToken,
      crash: options.crash,
      offline,
      progress,
      signal: stop.signal,
    });
    progress.clear();
    if (problems.length === 0) {
      console.log(
        `\nOK: ${feed.length} deliveries, each triaged by one workflow that completed once, in ${progress.elapsed}.`,
      );
      return 0;
    }
    console.error(
      `\nFAILED after ${progress.elapsed}:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
    );
  } catch (error) {
    progress.clear();
    console.error(`\nFAILED after ${progress.elapsed}: ${messageOf(error)}`);
  } finally {
    clearTimeout(deadline);
    stop.abort(new Error("The demo has ended."));
  }
  console.error(`\nThe last lines of the runtime's log:\n${runtime.logTail(LOG_LINES)}`);
  return 1;
}

function introduce({ model, crash }: Options, count: number): void {
  console.log("Perdure demo: durable workflows triage real GitHub webhooks.");
  console.log(
    `${count} payloads of @octokit/webhooks-examples; each starts one workflow that prompts a model, waits for approval when critical, and writes labels.`,
  );
  console.log(
    model === OFFLINE
      ? "Model: offline-rules, plain keyword rules with a model's delay; no network, no key."
      : `Model: ${model}.`,
  );
  if (crash)
    console.log("The runtime will be killed with SIGKILL twice in the middle of running turns.");
  console.log();
}

/** Ends the runtime's process group and removes its folder, keys included, however the demo ends. */
function cleanUpOnExit(runtime: Runtime): void {
  process.on("exit", () => runtime.destroy());
  const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
  for (const [signal, code] of Object.entries(codes)) {
    process.on(signal, () => {
      console.error(`\n${signal}: stopped the runtime and removed its folder.`);
      process.exit(code);
    });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function isUsageError(error: unknown): error is Error {
  return (
    error instanceof UsageError ||
    (error instanceof Error && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS"))
  );
}

try {
  const options = readOptions();
  if (options === "help") console.log(HELP);
  else process.exit(await main(options));
} catch (error) {
  if (!isUsageError(error)) throw error;
  console.error(`${error.message}\n\n${HELP}`);
  process.exitCode = EXIT_USAGE;
}
