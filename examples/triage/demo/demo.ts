/** The command of the demo: arguments, deadline, exit code and cleanup. */

import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Runtime } from "../../runtime.ts";
import { addShop, FAULTS, type Fault, plantAndWatch, Receiver } from "./faults/faults.ts";
import { Demo } from "./run.ts";

const EXAMPLE = fileURLToPath(new URL("..", import.meta.url).href);
const OFFLINE = "offline-rules";
const PROVIDER_KEYS: Record<string, string> = {
  openai: "OPENAI_API_KEY",
  anthropic: "ANTHROPIC_API_KEY",
};
const TIMEOUT_S = 900;
const LOG_LINES = 25;
const EXIT_USAGE = 2;

const HELP = `Usage: npm run demo -- [options]

Posts every issues, issue_comment and pull_request payload of @octokit/webhooks-examples, signed, to a local Cloudflare
runtime. Each starts one durable workflow: a model triages it, critical ones wait for approval, the labels are written.
Then every delivery is posted a second time, to show that nothing runs twice.

  --crash              kill the runtime with SIGKILL in the middle of running turns, twice, and go on from its disk
  --open               print the address of the dashboard, and keep it open afterwards until Ctrl+C
  --fault <name>       plant a fault after the deliveries, for you to find and fix; implies --open. One of
                       ${FAULTS.slice(0, 5).join(", ")},
                       ${FAULTS.slice(5).join(", ")}
  --model <name>       ${OFFLINE} (default: plain rules, no network), or a provider's model with the key in the environment:
                       openai/<model> with OPENAI_API_KEY, anthropic/<model> with ANTHROPIC_API_KEY
  --timeout <seconds>  give up after this long (default ${TIMEOUT_S})
  --help               this text

Exit code: 0 when every workflow completed and nothing ran twice, 1 otherwise, ${EXIT_USAGE} for a wrong option.`;

type Options = {
  crash: boolean;
  open: boolean;
  fault: Fault | undefined;
  model: string;
  key: Record<string, string>;
  timeoutS: number;
};

class UsageError extends Error {}

function readOptions(): Options | "help" {
  const { values } = parseArgs({
    options: {
      crash: { type: "boolean", default: false },
      open: { type: "boolean", default: false },
      fault: { type: "string" },
      model: { type: "string", default: OFFLINE },
      timeout: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return "help";
  const { crash, model, timeout } = values;
  const fault = faultOf(values.fault);
  const open = values.open || fault !== undefined;
  const key = keyFor(model);
  const timeoutS = Number(timeout ?? TIMEOUT_S);
  if (timeoutS > 0) return { crash, open, fault, model, key, timeoutS };
  throw new UsageError(`Invalid --timeout "${timeout}": expected a number of seconds.`);
}

function faultOf(name: string | undefined): Fault | undefined {
  const fault = FAULTS.find((each) => each === name);
  if (fault || name === undefined) return fault;
  throw new UsageError(`Unknown --fault "${name}". Use ${FAULTS.join(", ")}.`);
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
  if (value) return { [variable]: value };
  throw new UsageError(
    `--model ${model} needs the environment variable ${variable}, which is not set.`,
  );
}

async function main({ crash, open, fault, model, key, timeoutS }: Options): Promise<number> {
  const adminToken = randomBytes(24).toString("hex");
  const webhookSecret = randomBytes(24).toString("hex");
  const runtime = new Runtime(EXAMPLE, {
    ...key,
    MODEL: model,
    ADMIN_TOKEN: adminToken,
    WEBHOOK_SECRET: webhookSecret,
    ...(open && { OPEN_DASHBOARD: "1" }),
  });
  const receiver = new Receiver();
  if (fault) await addShop(runtime, receiver, fault);
  // Ends the runtime's processes and removes its folder, keys included, however the demo ends.
  process.on("exit", () => runtime.destroy());
  const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };
  for (const [name, code] of Object.entries(codes)) process.on(name, () => process.exit(code));
  const signal = AbortSignal.timeout(timeoutS * 1000);
  const offline = model === OFFLINE;
  const demo = new Demo({ runtime, webhookSecret, adminToken, crash, open, offline, signal });
  const { feed, progress } = demo;
  const name = offline ? `${model}, plain keyword rules with a model's delay; no key` : model;
  console.log(`Perdure demo: durable workflows triage real GitHub webhooks.
${feed.length} payloads of @octokit/webhooks-examples; each starts one workflow that prompts a model, waits for approval when critical, and writes labels.
Model: ${name}.`);
  if (crash) console.log("The runtime will be killed with SIGKILL twice, in the middle of turns.");
  const problems = await demo
    .run()
    .catch((error: Error) => [
      signal.aborted ? `The demo was not through after ${timeoutS} s.` : error.message,
    ]);
  if (problems.length === 0) {
    console.log(
      `\nOK: ${feed.length} deliveries, each triaged by one workflow that completed once, in ${progress.elapsed}.`,
    );
    if (open) {
      console.log(`\nThe dashboard stays open until you press Ctrl+C: ${runtime.url}/perdure`);
      console.log(
        `On the command line: PERDURE_URL=${runtime.url}/perdure PERDURE_TOKEN=${adminToken} npx perdure report`,
      );
      if (fault) await letFix(fault, runtime, receiver, adminToken);
      await new Promise(() => setInterval(() => {}, 60_000));
    }
    return 0;
  }
  console.error(`\nFAILED after ${progress.elapsed}:\n  - ${problems.join("\n  - ")}`);
  console.error(`\nThe last lines of the runtime's log:\n${runtime.logTail(LOG_LINES)}`);
  return 1;
}

async function letFix(fault: Fault, runtime: Runtime, receiver: Receiver, adminToken: string) {
  console.log(`
Something is wrong in ShopAgent/main. Find it, and fix it. The documentation: docs/operate.md.
The receiver's secret is now ${receiver.secret}.
In place of a deploy, edit the configuration with its vars, which is loaded again: ${runtime.config}`);
  const startedAt = performance.now();
  await plantAndWatch({
    fault,
    runtime,
    receiver,
    adminToken,
    signal: new AbortController().signal,
  });
  console.log(`\nFixed after ${Math.round((performance.now() - startedAt) / 1000)} s: ${fault}.`);
}

try {
  const options = readOptions();
  if (options === "help") console.log(HELP);
  else process.exit(await main(options));
} catch (error) {
  const isParseError = String((error as { code?: string }).code).startsWith("ERR_PARSE_ARGS");
  if (!(error instanceof UsageError || isParseError)) throw error;
  console.error(`${(error as Error).message}\n\n${HELP}`);
  process.exitCode = EXIT_USAGE;
}
