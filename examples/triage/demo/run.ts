/**
 * The demo: posts the feed, follows the workflows until all are settled, approves, kills the runtime if `crash` is set, prints
 * and checks the results, and posts everything a second time.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Runtime } from "../../runtime.ts";
import type { AgentReport, DeliveryReport } from "../src/agent.ts";
import { type Delivery, loadFeed, requestOf } from "./feed.ts";
import { Progress, table } from "./output.ts";

const CONCURRENCY = 6;
const RETRY_DELAY_MS = 250;
const REQUEST_TIMEOUT_MS = 15_000;
const POLL_MS = 250;
const CRASH_POLL_MS = 20;
/** How often to ask the platform too, to find a workflow that failed without a report. */
const PLATFORM_EVERY = 20;
/** A kill waits for a model call younger than this, so that it still runs when the signal arrives. Calls take 320 ms or more. */
const YOUNG_CALL_MS = 150;
/** The shares of answered calls at which the runtime is killed. */
const KILL_AT = [0.2, 0.55];
/** If the first workflows all fail, the rest will too: a wrong key, or no network. */
const HOPELESS_FAILURES = 3;
const FAILED = ["errored", "terminated"];

export interface Scenario {
  runtime: Runtime;
  webhookSecret: string;
  adminToken: string;
  crash: boolean;
  /** Prints the address of the dashboard. */
  open: boolean;
  /** The offline model answers every call, so each delivery needs exactly one. A provider may fail and be called again. */
  offline: boolean;
  signal: AbortSignal;
}

type Row = DeliveryReport & { agent: string };
type State = { rows: Map<string, Row>; counts: ReturnType<typeof countsOf>; callAges: number[] };

export class Demo {
  readonly feed = loadFeed();
  readonly progress = new Progress();
  readonly #scenario: Scenario;
  readonly #agents = [...new Set(this.feed.map(({ agent }) => agent))];
  #posted = 0;
  #retries = 0;
  #kills = 0;
  /** Kills that interrupted at least one model call. Only these count. */
  #hits = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
  }

  /** Resolves with the problems. An empty list is success. */
  async run(): Promise<string[]> {
    const { runtime, crash, open, signal } = this.#scenario;
    const { feed, progress } = this;
    progress.note(
      "Starting the local Cloudflare runtime (wrangler dev), state in a temporary folder.",
    );
    await runtime.start(signal);
    if (open) progress.note(`The dashboard: ${runtime.url}/perdure`);
    progress.note(
      `Posting ${feed.length} signed GitHub deliveries to ${runtime.url}/webhooks/github, for ${this.#agents.length} issues and pull requests.`,
    );
    // One may fail while the other still runs. Its failure is the result.
    const [state] = await Promise.all([this.#untilSettled(), this.#post()]);
    progress.note(
      `All ${feed.length} workflows are through. ${this.#retries} postings met a dead runtime and were sent again.`,
    );
    console.log(`\n${this.#table(state)}\n`);
    const problems = this.#problemsIn(state);
    if (crash && this.#hits < KILL_AT.length) {
      problems.push(`${this.#hits} kills hit a running model call; ${KILL_AT.length} were to.`);
    }

    progress.note("Posting every delivery a second time.");
    const verdicts = await this.#post();
    const known = verdicts.filter((verdict) => verdict === "duplicate").length;
    if (known < feed.length)
      problems.push(`${feed.length - known} redeliveries were not recognised.`);
    const [before, after] = [state.counts, (await this.#look(true)).counts];
    for (const name of Object.keys(before) as (keyof typeof before)[]) {
      if (before[name] === after[name]) continue;
      problems.push(`The second posting moved ${name} from ${before[name]} to ${after[name]}.`);
    }
    if (problems.length === 0) {
      progress.note(
        `${known} of ${feed.length} were recognised. Nothing ran twice: ${after.workflows} workflows, ${after.calls} model calls, ${after.labelled} labelled deliveries, before and after.`,
      );
    }
    return problems;
  }

  /** Posts every delivery, a few at a time, in order, and returns the verdicts. */
  async #post(): Promise<string[]> {
    const verdicts: string[] = [];
    const queue = this.feed.values();
    const worker = async () => {
      for (const delivery of queue) verdicts.push(await this.#postUntilTaken(delivery));
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
    return verdicts;
  }

  /** A post that fails because the runtime is down is repeated, like a redelivery of GitHub. A refused one fails the run. */
  async #postUntilTaken(delivery: Delivery): Promise<string> {
    const { webhookSecret, signal } = this.#scenario;
    for (; ; this.#retries++) {
      const request = await requestOf(delivery, webhookSecret);
      const answer = await this.#fetch("/webhooks/github", request).catch(() => undefined);
      if (answer?.status === 200) {
        this.#posted++;
        return (JSON.parse(answer.text) as { verdict: string }).verdict;
      }
      if (answer && answer.status < 500) {
        throw new Error(
          `Delivery ${delivery.id} was refused with ${answer.status}: ${answer.text}`,
        );
      }
      await delay(RETRY_DELAY_MS);
      signal.throwIfAborted();
    }
  }

  /** The state when every workflow of the feed is settled, in the agents and on the platform. */
  async #untilSettled(): Promise<State> {
    const { crash, runtime, signal } = this.#scenario;
    for (let polls = 1; ; polls++) {
      const state = await this.#look(polls % PLATFORM_EVERY === 0).catch((error) => {
        signal.throwIfAborted();
        if (!runtime.running) throw new Error("The runtime ended unexpectedly.", { cause: error });
        // A single failed poll is ignored. The deadline ends a series of them.
      });
      if (state) {
        this.#show(state);
        if (crash && this.#killIsDue(state)) await this.#killAndRestart(state);
        else await this.#approve(state);
        if (this.#isSettled(state)) {
          const confirmed = await this.#look(true);
          if (this.#isSettled(confirmed)) return confirmed;
        }
      }
      const isWaitingForKill = crash && this.#hits < KILL_AT.length;
      await delay(isWaitingForKill ? CRASH_POLL_MS : POLL_MS);
      signal.throwIfAborted();
    }
  }

  async #look(platform: boolean): Promise<State> {
    const query = new URLSearchParams(this.#agents.map((agent) => ["agent", agent]));
    const path = `/results?${query}${platform ? "&platform=1" : ""}`;
    const reports = await this.#call<AgentReport[]>(path);
    const rows = reports.flatMap(({ agent, deliveries }) =>
      deliveries.map((row) => ({ ...row, agent })),
    );
    return {
      rows: new Map(rows.map((row) => [row.delivery, row])),
      counts: countsOf(reports, rows),
      callAges: reports.flatMap(({ callAges }) => callAges),
    };
  }

  #isSettled({ rows }: State): boolean {
    return rows.size === this.feed.length && [...rows.values()].every(isSettled);
  }

  #show({ rows, counts: { complete, waiting, failed }, callAges }: State): void {
    const all = this.feed.length;
    this.progress.update(
      `posted ${this.#posted}/${all}  complete ${complete}/${all}  turns running ${callAges.length}  waiting for approval ${waiting}  failed ${failed}`,
    );
    if (failed < HOPELESS_FAILURES || complete > 0) return;
    const reason = [...rows.values()].find(hasFailed)?.error ?? "no reason";
    throw new Error(`The first ${failed} workflows failed, the first one with: ${reason}`);
  }

  async #approve({ rows }: State): Promise<void> {
    for (const { id, event, action, agent } of this.feed) {
      const { status, approval } = rows.get(id) ?? {};
      if (status !== "waiting" || !approval) continue;
      await this.#call(`/perdure/api/agents/TriageAgent/${encodeURIComponent(agent)}/actions`, {
        action: { do: "approve", approvalId: approval.approvalId },
        reason: "The demo plays the person who decides",
      });
      this.progress.note(
        `Critical: ${event}.${action} "${approval.title}" waits for a person. The demo plays that person and approves.`,
      );
    }
  }

  #killIsDue({ counts, callAges }: State): boolean {
    const share = KILL_AT[this.#hits] ?? Number.POSITIVE_INFINITY;
    const isYoung = callAges.some((age) => age < YOUNG_CALL_MS);
    return isYoung && counts.answers >= share * this.feed.length;
  }

  async #killAndRestart(before: State): Promise<void> {
    const { runtime, signal } = this.#scenario;
    const killing = runtime.kill();
    this.#kills++;
    const { callAges, counts } = before;
    const all = this.feed.length;
    this.progress.note(
      `SIGKILL to the runtime: ${callAges.length} turns in mid-answer, ${counts.answers}/${all} answered, ${counts.complete}/${all} workflows complete.`,
    );
    await killing;
    this.progress.note("It is dead. Starting it again on the same state and port.");
    await runtime.start(signal);
    const unfinished = await runtime.resume(signal);
    const cut = cutOff(await this.#look(false)) - cutOff(before);
    if (cut > 0) this.#hits++;
    this.progress.note(
      cut > 0
        ? `It is back: ${cut} answers were cut off, ${unfinished} workflows are unfinished. The work goes on.`
        : "It is back, but every call had ended by then. The next running call gets another kill.",
    );
  }

  #problemsIn({ rows, counts: { workflows, calls } }: State): string[] {
    const { offline } = this.#scenario;
    const isOnceEach = offline && this.#kills === 0;
    const problems = this.feed.flatMap(({ id }) => problemsOf(id, rows.get(id), isOnceEach));
    if (workflows !== this.feed.length) {
      problems.push(`${workflows} workflows were started for ${this.feed.length} deliveries.`);
    }
    // An agent runs one turn at a time, so a kill interrupts at most one turn of each.
    const cuttable = this.#kills * this.#agents.length;
    const repeated = calls - this.feed.length;
    if (offline && repeated > cuttable) {
      problems.push(
        `${repeated} model calls were repeated, more than ${cuttable}, which kills can cut off.`,
      );
    }
    return problems;
  }

  #table({ rows }: State): string {
    const lines = this.feed.map(({ id, event, action, agent }) => {
      const { status = "", triage, approval } = rows.get(id) ?? {};
      const end = approval ? `${status}, approved` : status;
      const what = [id.slice(0, 8), `${event}.${action}`, agent.split("/")[1] ?? ""];
      const verdict = triage && [triage.title, triage.labels.join(", "), triage.severity];
      return [...what, ...(verdict ?? ["", "", ""]), end];
    });
    return table([
      ["DELIVERY", "EVENT", "SUBJECT", "TITLE", "LABELS", "SEVERITY", "STATUS"],
      ...lines,
    ]);
  }

  /** An operator's call: GET, or POST with a body. */
  async #call<Answer>(path: string, body?: object): Promise<Answer> {
    const headers = {
      Authorization: `Bearer ${this.#scenario.adminToken}`,
      "Content-Type": "application/json",
    };
    const request = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) };
    const { status, text } = await this.#fetch(path, request);
    if (status !== 200) throw new Error(`${path} answered ${status}: ${text}`);
    return JSON.parse(text) as Answer;
  }

  async #fetch(path: string, request: RequestInit): Promise<{ status: number; text: string }> {
    const { runtime, signal } = this.#scenario;
    const either = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    const response = await fetch(`${runtime.url}${path}`, { ...request, signal: either });
    return { status: response.status, text: await response.text() };
  }
}

function countsOf(reports: AgentReport[], rows: Row[]) {
  const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0);
  return {
    deliveries: rows.length,
    complete: rows.filter(({ status }) => status === "complete").length,
    failed: rows.filter(hasFailed).length,
    waiting: rows.filter(({ status }) => status === "waiting").length,
    workflows: sum(reports.map(({ workflows }) => workflows)),
    calls: sum(rows.map(({ calls }) => calls)),
    answers: sum(rows.map(({ answers }) => answers)),
    labelled: rows.filter(({ triage }) => triage).length,
    labelRequests: sum(rows.map(({ labelRequests }) => labelRequests)),
  };
}

function problemsOf(id: string, row: Row | undefined, isOnceEach: boolean): string[] {
  if (!row) return [`${id}: never arrived.`];
  const { status, platformStatus, error, triage, calls, labelRequests } = row;
  const problems = [
    hasFailed(row) && `the workflow failed: ${error ?? "no reason given"}`,
    !isSettled(row) && `not complete: ${status}, on the platform ${platformStatus ?? "unknown"}.`,
    status === "complete" && !triage && "its labels were not written.",
    isOnceEach && calls > 1 && `the model was called ${calls} times.`,
    isOnceEach && labelRequests > 1 && `the step apply-labels ran ${labelRequests} times.`,
  ];
  return problems.filter((problem) => problem !== false).map((problem) => `${id}: ${problem}`);
}

/** Model calls that have no answer and do not run. */
function cutOff({ counts: { calls, answers }, callAges }: State): number {
  return calls - answers - callAges.length;
}

function hasFailed({ status, platformStatus = "" }: Row): boolean {
  return FAILED.includes(status) || FAILED.includes(platformStatus);
}

/** Settled in the agent and, if requested, on the platform. */
function isSettled(row: Row): boolean {
  const { status, platformStatus = status } = row;
  return hasFailed(row) || (status === "complete" && platformStatus === "complete");
}
