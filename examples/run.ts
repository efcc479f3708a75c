/**
 * Runs examples on a local runtime and prints their results: `npm run examples`, or some of them by name. With `--crash` it
 * kills the runtime meanwhile, and the runtime continues from disk. Exit code 1 when an example does not end as expected.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runChat } from "./chat/run.ts";
import { runDurableTool } from "./durable-tool/run.ts";
import { runLimits } from "./limits/run.ts";
import { runOrders } from "./orders/run.ts";
import { runReport } from "./reports/run.ts";
import { Runtime } from "./runtime.ts";
import { runSteps, STEPS } from "./steps/run.ts";

const TIMEOUT_MS = 240_000;
/** Those with a folder of their own, and no secrets. */
const FOLDERS = {
  chat: { name: "chat", run: runChat },
  reports: { name: "report", run: runReport },
  "durable-tool": { name: "durable-tool", run: runDurableTool },
  limits: { name: "limits", run: runLimits },
} as const;
const EXAMPLES = [
  ...Object.keys(STEPS),
  "orders",
  ...Object.values(FOLDERS).map(({ name }) => name),
];

const { values, positionals } = parseArgs({
  options: { crash: { type: "boolean", default: false } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !EXAMPLES.includes(name));
if (unknown.length > 0) {
  console.error(`No such example: ${unknown.join(", ")}. There are ${EXAMPLES.join(", ")}.`);
  process.exit(2);
}
const names = positionals.length > 0 ? positionals : EXAMPLES;
const steps = names.filter((name) => name in STEPS);
for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => process.exit(130));
const { crash } = values;
if (steps.length > 0) {
  await run("steps", {}, (runtime, signal) => runSteps(steps, { runtime, crash, signal }));
}
if (names.includes("orders")) {
  const secrets = {
    STRIPE_SECRET: `whsec_${crypto.randomUUID()}`,
    LINK_SECRET: crypto.randomUUID(),
  };
  await run("orders", secrets, (runtime, signal) =>
    runOrders(secrets.STRIPE_SECRET, { runtime, crash, signal }),
  );
}
for (const [folder, example] of Object.entries(FOLDERS)) {
  if (!names.includes(example.name)) continue;
  await run(folder, {}, (runtime, signal) => example.run({ runtime, crash, signal }));
}

/** Removes the runtime afterwards, however the process ends. */
async function run(
  folder: string,
  secrets: Record<string, string>,
  act: (runtime: Runtime, signal: AbortSignal) => Promise<boolean>,
): Promise<void> {
  const runtime = new Runtime(fileURLToPath(new URL(folder, import.meta.url).href), secrets);
  const destroy = () => runtime.destroy();
  process.on("exit", destroy);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    await runtime.start(signal);
    if (!(await act(runtime, signal))) process.exitCode = 1;
  } catch (error) {
    console.error(error, `\nThe end of the runtime's log:\n${runtime.logTail(25)}`);
    process.exitCode = 1;
  } finally {
    destroy();
    process.off("exit", destroy);
  }
}
