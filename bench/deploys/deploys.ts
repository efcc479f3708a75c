/**
 * `npm run deploys`: brings a run of a workflow to each state, kills the runtime, deploys each edit of the code, and lets all go
 * on. Compares what has become of each run with what `npx perdure check` had said.
 *
 *   npm run deploys -- --every 3 --seed 7
 */

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Config, Runtime } from "../../examples/runtime.ts";
import { call, drive, endsAfter, numbersOf } from "../../test/acceptance/soak/driver.ts";
import { randomOf } from "../../test/acceptance/soak/random.ts";
import type { Look } from "./agents.ts";
import type { Status } from "./app.ts";
import { allCells, cellOf, idOf, type State } from "./cells.ts";
import { CommandLine } from "./command-line.ts";
import type { Desked } from "./desk.ts";
import { isHarmed, type Outcome, outcomeOf } from "./outcome.ts";
import { saidOf } from "./said.ts";
import { falseAlarms, unsaid, unspared, written } from "./table.ts";

const LIMIT_MS = 600_000;
const POLL_MS = 500;
/** Runs reach their states, and end, in some seconds. */
const STATES_MS = 180_000;
/** Nothing has moved for so long: what has not ended by then does not end. */
const QUIET_MS = 40_000;
const SETTLE_MS = 240_000;
/** Requests at the same time. */
const CONCURRENCY = 16;

const { seed, every } = numbersOf({ every: 1 });
const here = import.meta.dirname;
const PAGE = path.join(here, "../../docs/deploy.md");
const runtime = new Runtime(path.join(here, "old"));
const cli = new CommandLine();
const FILE = path.join(cli.folder, "open-work.json");
const signal = endsAfter(LIMIT_MS);

async function prove(): Promise<boolean> {
  const ids = chosen();
  console.log(`seed ${seed}: ${ids.length} runs`);
  await Promise.all([cli.build(), runtime.start(signal)]);
  await each(ids, (id) => call(runtime, "begin", id, signal));
  await inTheirStates(ids);
  lap("in their states");
  await perdure("snapshot", "--from", `${runtime.url}/perdure`, "--out", FILE);
  lap("snapshot");
  await runtime.kill();
  const said = saidOf(JSON.parse(await perdure("check", "--snapshot", FILE, "--json")));
  lap("checked");
  deploy();
  await runtime.start(signal);
  await call(runtime, "open", null, signal);
  await sendAll(ids);
  const outcomes = await settled(ids);
  lap("settled");
  return report({ outcomes, said });
}

/** Returns whether nothing was harmed of which no error had been said, or that has to go on in any case. */
function report(results: Parameters<typeof unsaid>[0]): boolean {
  const { outcomes, said } = results;
  const found = [...new Set([...unsaid(results), ...unspared(results)])];
  for (const { id, end, twice, missing, error } of found)
    console.error(`${id}: ${JSON.stringify({ end, twice, missing, error, said: said.get(id) })}`);
  const alarms = falseAlarms(results);
  for (const { id } of alarms)
    console.log(`said, but ended well: ${id}: ${said.get(id)?.problems}`);
  const harmed = [...outcomes.values()].filter(isHarmed).length;
  console.log(
    `seed ${seed}: ${outcomes.size} runs, ${harmed} harmed, ${found.length} against what had been said before, ` +
      `${alarms.length} that ended well after an error`,
  );
  const isFine = found.length === 0;
  if (isFine && every <= 1) writeFileSync(PAGE, written(readFileSync(PAGE, "utf8"), results));
  return isFine;
}

let lapped = Date.now();
function lap(what: string): void {
  console.log(`${what} after ${((Date.now() - lapped) / 1_000).toFixed(1)} s`);
  lapped = Date.now();
}

/** All cells, or every third by the seed, and so on. */
function chosen(): string[] {
  const ids = allCells().map(idOf);
  if (every <= 1) return ids;
  const random = randomOf(seed, "cells");
  return ids.filter(() => random() < 1 / every);
}

/** Calls for each id, some at the same time. */
async function each<T>(ids: readonly string[], work: (id: string) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  const next = ids.entries();
  const worker = async () => {
    for (const [index, id] of next) results[index] = await work(id);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return results;
}

const desk = () => call<Record<string, Desked>>(runtime, "desk", null, signal);

/** What shows that a run is in its state. */
const REACHED: Readonly<Record<State, (desk: Desked, look: Look | undefined) => boolean>> = {
  before: ({ effects }) => effects.begin === 1,
  after: ({ effects }) => effects.side === 1,
  in: ({ asked }) => asked.includes("do"),
  waiting: ({ asked }) => asked.includes("model"),
  tool: ({ asked }) => asked.includes("tool"),
  batch: ({ asked, effects }) => asked.includes("model") && effects.first === 1,
  approval: (_, look) => look?.waits.includes("approval") === true,
  webhook: (_, look) => look?.waits.includes("webhook") === true,
};

/** Of the platform alone. */
function isPlainReached(state: State, { effects, asked }: Desked): boolean {
  if (state === "after") return effects.side === 1;
  if (state === "in") return asked.includes("step");
  if (state === "batch") return effects.first === 1 && asked.includes("second");
  return effects.begin === 1;
}

async function isReached(id: string, desks: Record<string, Desked>): Promise<boolean> {
  const { flavor, state, edit } = cellOf(id);
  const own = desks[id] ?? { effects: {}, asked: [] };
  if (flavor === "plain") return isPlainReached(state, own);
  if (edit === "rename-task" && !own.asked.includes("task")) return false;
  const needsLook = state === "approval" || state === "webhook";
  const look = needsLook ? await call<Look>(runtime, "look", id, signal) : undefined;
  return REACHED[state](own, look);
}

async function inTheirStates(ids: readonly string[]): Promise<void> {
  let open = ids;
  for (const until = Date.now() + STATES_MS; ; ) {
    const desks = await desk();
    const reached = await each(open, (id) => isReached(id, desks));
    open = open.filter((_, index) => !reached[index]);
    if (open.length === 0) break;
    if (Date.now() > until)
      throw new Error(`Runs that are not in their states after ${STATES_MS / 1_000} s: ${open}`);
    await delay(POLL_MS, undefined, { signal });
  }
  // The engine stores the beginning of a step a moment after it.
  await delay(2 * POLL_MS, undefined, { signal });
}

/** Runs `npx perdure` in the folder of the new code, and returns what it prints. @throws Error if it could not do it */
async function perdure(...args: string[]): Promise<string> {
  const { code, out, err } = await cli.run(path.join(here, "new"), ...args);
  // 1: the check has found something.
  if (code !== 0 && code !== 1)
    throw new Error(`perdure ${args.join(" ")} ended with ${code}: ${err}`);
  if (!out.startsWith("{") && args.includes("--json"))
    throw new Error(`perdure ${args.join(" ")} printed no JSON: ${out}${err}`);
  return out;
}

/** The next start runs the new code, with its configuration, on the same storage. */
function deploy(): void {
  const folder = path.join(here, "new");
  const file = readFileSync(path.join(folder, "wrangler.jsonc"), "utf8");
  // The platform refuses a class that is gone without a migration. The local runtime starts if no migration has it.
  const text = file.replace(/^\s*\/\/.*$/gm, "").replace(', "Moved"', "");
  runtime.editConfig(() => {
    const config = JSON.parse(text) as Config;
    return { ...config, main: path.join(folder, config.main) };
  });
}

/** Senders send what the runs waited for before the deploy, once. */
async function sendAll(ids: readonly string[]): Promise<void> {
  const receiving = ids.filter((id) => {
    const { flavor, edit, state } = cellOf(id);
    if (flavor !== "plain") return state === "webhook";
    return state === "waiting" || (state === "before" && edit === "change-kind");
  });
  await each(receiving, (id) => tried(id, "receive"));
}

/** A call that the new code may refuse, because it has no such agent, or no such run. */
async function tried(id: string, verb: "receive" | "decide" | "go"): Promise<void> {
  try {
    await call(runtime, verb, id, signal);
  } catch (error) {
    signal.throwIfAborted();
    refused.set(id, `${verb}: ${String(error).split("\n")[0]}`);
  }
}

const refused = new Map<string, string>();

/** Lets all runs go on, until they have ended, or nothing moves. */
async function settled(ids: readonly string[]): Promise<Map<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  let [last, since] = ["", Date.now()];
  for (const until = Date.now() + SETTLE_MS; ; ) {
    const open = ids.filter(
      (id) => outcomes.get(id)?.end !== "ended" && outcomes.get(id)?.end !== "failed",
    );
    await each(open, async (id) => {
      await tried(id, "go");
      if (cellOf(id).flavor !== "plain") await tried(id, "decide");
    });
    const statuses = await each(open, (id) => call<Status>(runtime, "status", id, signal));
    const desks = await desk();
    for (const [index, id] of open.entries())
      outcomes.set(id, outcomeOf(id, desks[id], statuses[index] ?? { status: "gone" }));
    const now = JSON.stringify([statuses, desks]);
    if (now !== last) [last, since] = [now, Date.now()];
    const isOver = Date.now() - since > QUIET_MS || Date.now() > until;
    if (isOver || [...outcomes.values()].every(({ end }) => end === "ended" || end === "failed"))
      return outcomes;
    await delay(POLL_MS, undefined, { signal });
  }
}

await drive(
  {
    destroy: () => {
      runtime.destroy();
      cli.remove();
    },
    log: () => runtime.logTail(40),
  },
  prove,
);
