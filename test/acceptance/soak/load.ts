/** Keeps a number of requests open, across restarts of the machine, with every verb in the mix. Each end starts a new one. */

import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "./client.ts";
import type { Followers } from "./followers.ts";
import {
  type ArrivalEntry,
  type Entry,
  isOver,
  type PutEntry,
  type SubmissionEntry,
  type WorkflowEntry,
} from "./ledger.ts";
import { countEffects, expectedOutcome, planAsk, planWorkflow } from "./plans.ts";
import { between, oneOf, type Random } from "./random.ts";
import type { Records } from "./records.ts";
import { Sender } from "./sender.ts";
import {
  type Accepted,
  type ArrivalBody,
  type Ask,
  BUSY,
  CLEARS,
  isDisturbed,
  isNested,
  isObject,
  LANES,
  type Plan,
  type Put,
} from "./words.ts";

const TICK_MS = 100;
/** Maximum number of starts in one tick. */
const MAX_NEW = 5;
/** Shares of what starts; the rest are submissions. */
const SHARES = { workflow: 0.4, many: 0.07, put: 0.08, arrival: 0.1 } as const;
const TWICE = 0.15;
const CONFLICTING = 0.05;
const CANCELLED = 0.1;
const FOLLOWED = 0.1;
/** Share of ended submissions that are submitted again or deleted. */
const CHANGED_AT_END = 0.3;
const CONTROLLED = 0.3;
const GOES_ON = /^(queued|running|waiting|complete|errored|terminated)\b/;
const CONTROLS = ["terminate", "restart", "pause"] as const;
/** The share of calls with unpaired surrogates, or with an invalid submission among valid ones. */
const MALFORMED = 0.03;
/** How often a disturbed agent is cleared or reset, soon after a kill, while it recovers. */
const DISTURB_MS = 400;
/** How often approvals are granted, and dead letters redriven. */
const PERSON_MS = 1_000;
/** Open submissions of one lane. */
const LANE_OPEN = 2;

export class Load {
  readonly #client: Client;
  readonly #records: Records;
  readonly #random: Random;
  readonly #agents: readonly string[];
  readonly #followers: Followers;
  readonly #sender: Sender;
  readonly entries: Entry[] = [];
  /** Calls by verb. */
  readonly asked = new Map<string, number>();
  /** Options that accepted half of a surrogate pair. */
  readonly acceptedMalformed = new Set<string>();
  /** Keys of `submitMany()` calls that were refused as a whole. */
  readonly refusedKeys: string[] = [];
  /** Answers that nothing explains. */
  readonly problems: { readonly id: string; readonly what: string }[] = [];
  #open: Entry[] = [];
  #isOver = false;

  constructor(
    client: Client,
    records: Records,
    random: Random,
    { agents, followers }: { agents: readonly string[]; followers: Followers },
  ) {
    this.#client = client;
    this.#records = records;
    this.#random = random;
    this.#agents = agents;
    this.#followers = followers;
    this.#sender = new Sender(client);
  }

  /** Runs until {@link stop}. */
  async keep(count: number): Promise<void> {
    const lanes = this.#agents.flatMap((agent) =>
      isDisturbed(agent) ? [] : LANES.map((lane) => this.#keepLane(agent, lane)),
    );
    while (!this.#isOver) {
      this.#sweep();
      const missing = Math.min(MAX_NEW, count - this.#open.length);
      for (let index = 0; index < missing; index++) this.#begin();
      await delay(TICK_MS);
    }
    await Promise.all(lanes);
  }

  /** Starts no new work. */
  stop(): void {
    this.#isOver = true;
  }

  /** Work whose end the receiver has not received. */
  open(): Entry[] {
    this.#sweep();
    return this.#open;
  }

  count(verb: string): void {
    this.asked.set(verb, (this.asked.get(verb) ?? 0) + 1);
  }

  /** Acts as the person who grants approvals and redrives dead letters, until the signal. */
  async attend(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await delay(PERSON_MS);
      if (this.#client.isHeld) continue;
      const waiting = this.#open.filter(
        (entry) => entry.kind === "workflow" && entry.needsApproval,
      );
      const dead = this.#open.filter((entry) => entry.kind === "put" && entry.to === "stubborn");
      const agents = new Set(waiting.map(({ agent }) => agent));
      // After a kill, the agent is called again in a second.
      await Promise.allSettled([
        ...[...agents].map((agent) => this.#client.call(agent, "grantAll")),
        ...dead.map(async ({ agent, id }) => {
          const state = await this.#client.call<string>(agent, "redrive", id);
          if (state === "dead") this.count("redrive");
        }),
      ]);
    }
  }

  /** Clears and resets the disturbed agents, until the signal. */
  async disturb(signal: AbortSignal): Promise<void> {
    const agents = this.#agents.filter(isDisturbed);
    while (!signal.aborted && !this.#isOver) {
      await delay(DISTURB_MS);
      if (this.#client.isHeld || agents.length === 0) continue;
      const agent = oneOf(this.#random, agents);
      if (this.#random() < 0.3) {
        this.count("reset");
        await this.#client.insistOn(agent, "reset");
      } else await this.#clear(agent, oneOf(this.#random, ["main", "side"] as const));
    }
  }

  /** Messages accepted before the call must not be in the conversation after it. */
  async #clear(agent: string, thread: keyof typeof CLEARS): Promise<void> {
    const accepted = this.entries.filter(
      (entry): entry is SubmissionEntry =>
        entry.kind === "submission" &&
        entry.agent === agent &&
        entry.ask.thread === thread &&
        entry.acceptedAt !== undefined,
    );
    const answer = await this.#client.insistOn<string>(agent, CLEARS[thread]);
    if (answer === undefined) return;
    this.count(CLEARS[thread]);
    for (const entry of accepted) entry.isCleared = true;
  }

  /** Removes what has ended from the open requests. Some of it is retried or deleted. */
  #sweep(): void {
    const [ended, open] = [[] as Entry[], [] as Entry[]];
    for (const entry of this.#open) (isOver(entry, this.#records) ? ended : open).push(entry);
    this.#open = open;
    for (const entry of ended) {
      if (entry.kind !== "submission" || this.#isOver || isDisturbed(entry.agent)) continue;
      if (entry.refused !== undefined || entry.isRetried || isLane(entry)) continue;
      // A repetition of the first call would be a new submission.
      if (entry.openCalls > 0) continue;
      if (entry.ask.thread === BUSY || this.#random() > CHANGED_AT_END) continue;
      this.#run(entry.id, this.#changeEnded(entry));
    }
  }

  /** Retries an aborted or skipped submission, deletes a completed one. */
  async #changeEnded(entry: SubmissionEntry): Promise<void> {
    const [id = ""] = entry.submissionIds;
    const [end] = this.#records.ends.get(id)?.values() ?? [];
    if (end?.status === "completed") {
      await this.#client.insistOn(entry.agent, "remove", id);
      this.count("deleteSubmission");
      entry.isDeleted = true;
      return;
    }
    entry.isRetried = true;
    this.#open.push(entry);
    const retried = await this.#client.insistOn<string | null>(entry.agent, "retryEnded", id);
    if (retried === undefined) return;
    this.count("retrySubmission");
    if (retried === null) this.#problem(entry.id, `retrySubmission() does not find ${id}`);
    else entry.retriedIds.add(retried);
    const again = await this.#client.insistOn<string | null>(entry.agent, "retryEnded", id);
    if (again) entry.retriedIds.add(again);
  }

  #begin(): void {
    const random = this.#random;
    const agent = oneOf(random, this.#agents);
    const id = `${agent}-${this.entries.length}`;
    if (random() < MALFORMED) this.#run(agent, this.#submitMalformed(agent));
    if (random() < MALFORMED) this.#run(agent, this.#submitInvalid(agent, `i-${id}`));
    let luck = random();
    const falls = (share: number) => {
      luck -= share;
      return luck < 0;
    };
    if (falls(SHARES.workflow) && !isDisturbed(agent) && !isObject(agent)) {
      this.#beginWorkflow(agent, `w-${id}`);
    } else if (falls(SHARES.many)) this.#beginMany(agent, `m-${id}`);
    else if (falls(SHARES.put)) this.#beginPut(agent, `p-${id}`);
    else if (falls(SHARES.arrival) && !isNested(agent)) this.#beginArrival(agent, `r-${id}`);
    else this.#beginSubmission(agent, `s-${id}`);
  }

  #add<Added extends Entry>(entry: Added): Added {
    this.entries.push(entry);
    this.#open.push(entry);
    return entry;
  }

  #run(id: string, work: Promise<unknown>): void {
    work.catch((error) => this.#problem(id, String(error)));
  }

  #problem(id: string, what: string): void {
    this.problems.push({ id, what });
  }

  // Workflows

  #beginWorkflow(agent: string, id: string): void {
    const plan = planWorkflow(this.#random, agent, id, Date.now());
    const effects = (isCharge: boolean) =>
      countEffects(
        plan.steps.flatMap((step) =>
          step.kind === "prompt" && (step.tool === "charge") === isCharge ? step.effects : [],
        ),
      );
    const entry = this.#add<WorkflowEntry>({
      ...{ kind: "workflow", agent, id, askedAt: Date.now() },
      expected: expectedOutcome(plan),
      needsApproval: plan.steps.some(({ kind }) => kind === "approval"),
      planned: effects(false),
      charges: effects(true),
    });
    const control = this.#random() < CONTROLLED ? oneOf(this.#random, CONTROLS) : undefined;
    const waits = [between(this.#random, 0, 3_000), between(this.#random, 0, 3_000)] as const;
    const isByAgent = this.#random() < 0.5 && !isNested(agent);
    this.#run(id, this.#runWorkflow(entry, plan, { control, waits, isByAgent }));
    for (const [index, { kind }] of plan.steps.entries()) {
      if (kind === "webhook") this.#sendArrival(agent, `${id}-${index}`, "step");
    }
  }

  async #runWorkflow(
    entry: WorkflowEntry,
    plan: Plan,
    {
      control,
      waits,
      isByAgent,
    }: {
      control: (typeof CONTROLS)[number] | undefined;
      waits: readonly [number, number];
      isByAgent: boolean;
    },
  ): Promise<void> {
    const { agent, id } = entry;
    if ((await this.#client.insistOn<string>(agent, "begin", plan)) === undefined) return;
    entry.acceptedAt = Date.now();
    this.count("runWorkflow");
    if (control === undefined) return;
    await delay(waits[0]);
    this.count(`${control}Workflow`);
    if (control === "terminate") {
      if (isByAgent) await this.#client.call(agent, "terminateWorkflow", id).catch(() => {});
      // By its binding, as from the dashboard: its agent gets no call.
      await this.#client.onWorkflows("terminate", [id]);
      entry.isTerminated = true;
      return;
    }
    if (control === "restart") {
      // Refused where the workflow has ended; a kill may hide the answer.
      if (isByAgent) await this.#client.call(agent, "restartWorkflow", id).catch(() => {});
      else await this.#client.onWorkflows("restart", [id]);
      return;
    }
    await this.#client.call(agent, "pauseWorkflow", id).catch(() => {});
    await delay(waits[1]);
    for (;;) {
      const { [id]: status = "" } = await this.#client.onWorkflows("resume", [id]);
      // A run that is about to pause refuses to be resumed.
      if (this.#isEnding || GOES_ON.test(status)) return;
      await delay(TICK_MS * 5);
    }
  }

  /** Set when no call of the agents is allowed. */
  #isEnding = false;

  /** Lets loops of the driver end. */
  end(): void {
    this.#isEnding = true;
  }

  // Submissions

  #newSubmission(agent: string, ask: Ask): SubmissionEntry {
    return this.#add<SubmissionEntry>({
      ...{ kind: "submission", agent, id: ask.key, askedAt: Date.now(), ask },
      ...{ submissionIds: new Set<string>(), retriedIds: new Set<string>(), openCalls: 0 },
    });
  }

  #beginSubmission(agent: string, key: string): void {
    const entry = this.#newSubmission(
      agent,
      planAsk(this.#random, { agent, key, now: Date.now() }),
    );
    const times = this.#random() < TWICE ? 2 : 1;
    const cancelsAfter = this.#random() < CANCELLED ? between(this.#random, 0, 1_500) : undefined;
    const conflicts = this.#random() < CONFLICTING;
    const isFollowed = this.#random() < FOLLOWED && !isNested(agent) && !isDisturbed(agent);
    if (times === 2) this.count("submitMessages again");
    for (let time = 0; time < times; time++) {
      this.#run(key, this.#submit(entry, { cancelsAfter, isFollowed: isFollowed && time === 0 }));
    }
    if (conflicts) this.#run(key, this.#submitOther(entry));
  }

  async #submit(
    entry: SubmissionEntry,
    {
      cancelsAfter,
      isFollowed = false,
    }: { cancelsAfter: number | undefined; isFollowed?: boolean },
  ): Promise<void> {
    const { agent, ask } = entry;
    entry.openCalls++;
    const answer = await this.#client.insistOn<Accepted>(agent, "submit", ask);
    entry.openCalls--;
    if (answer === undefined) return;
    this.count(ask.whenBusy === "enqueue" ? "submitMessages" : `submitMessages ${ask.whenBusy}`);
    this.#accept(entry, answer);
    if ("refused" in answer) return;
    const { submissionId } = answer;
    if (answer.conflict) this.#problem(entry.id, `${submissionId} conflicts with itself`);
    if (isFollowed) {
      this.count("followSubmission");
      this.#followers.followSubmission(agent, submissionId);
    }
    if (cancelsAfter === undefined) return;
    await delay(cancelsAfter);
    entry.isCancelled = true;
    this.count("cancelSubmission");
    await this.#client.insistOn(agent, "cancel", submissionId);
  }

  #accept(entry: SubmissionEntry, answer: Accepted): void {
    entry.acceptedAt ??= Date.now();
    if ("refused" in answer) entry.refused = answer.refused;
    else entry.submissionIds.add(answer.submissionId);
  }

  /** Another payload under the same key, once the first was accepted: the answer reports the first. */
  async #submitOther(entry: SubmissionEntry): Promise<void> {
    while (entry.acceptedAt === undefined && !this.#isEnding) await delay(TICK_MS);
    // While a retry of it is possible, the key may belong to the retried one.
    if (entry.refused !== undefined || entry.isRetried || entry.isDeleted || this.#isEnding) return;
    const other = { ...entry.ask, text: `another answer to ${entry.id}` };
    entry.openCalls++;
    const answer = await this.#client.insistOn<Accepted>(entry.agent, "submit", other);
    entry.openCalls--;
    if (answer === undefined) return;
    this.count("submitMessages other payload");
    const isReported = "submissionId" in answer && answer.conflict && !answer.accepted;
    if (!isReported) {
      this.#problem(entry.id, `another payload was answered with ${JSON.stringify(answer)}`);
    }
    if ("submissionId" in answer) entry.submissionIds.add(answer.submissionId);
  }

  #beginMany(agent: string, key: string): void {
    const asks = Array.from({ length: between(this.#random, 2, 4) }, (_, index) => {
      const ask = planAsk(this.#random, { agent, key: `${key}-${index}`, now: Date.now() });
      return { ...ask, whenBusy: "enqueue" } as const;
    });
    const entries = asks.map((ask) => this.#newSubmission(agent, ask));
    const submitted = this.#client.insistOn<Accepted[]>(agent, "submitAll", asks);
    this.#run(
      key,
      submitted.then((answers) => {
        if (answers === undefined) return;
        this.count("submitMany");
        for (const [index, answer] of answers.entries()) {
          const entry = entries[index];
          if (entry) this.#accept(entry, answer);
        }
        if (answers.length !== asks.length) {
          this.#problem(key, `submitMany() of ${asks.length} returned ${answers.length}`);
        }
      }),
    );
  }

  async #submitInvalid(agent: string, key: string): Promise<void> {
    const asks = [planAsk(this.#random, { agent, key, now: Date.now(), thread: "isolated" })];
    this.refusedKeys.push(key);
    const name = await this.#client.insistOn<string>(agent, "submitInvalid", asks);
    if (name === undefined) return;
    this.count("submitMany invalid");
    if (!name.startsWith("Invalid")) this.#problem(key, `submitMany() was answered with ${name}`);
  }

  async #submitMalformed(agent: string): Promise<void> {
    this.count("malformed text");
    const accepted = await this.#client.insistOn<string[]>(agent, "submitMalformed");
    for (const option of accepted ?? []) this.acceptedMalformed.add(option);
  }

  /** Submits to a thread one after the other: its messages must be in this order. */
  async #keepLane(agent: string, thread: string): Promise<void> {
    for (let index = 0; !this.#isOver; index++) {
      const isFull = () =>
        this.#open.filter((entry) => entry.agent === agent && isLane(entry, thread)).length >=
        LANE_OPEN;
      while (isFull() && !this.#isOver) await delay(TICK_MS);
      if (this.#isOver) return;
      const key = `l-${agent}-${thread}-${index}`;
      const entry = this.#newSubmission(
        agent,
        planAsk(this.#random, { agent, key, now: Date.now(), thread }),
      );
      // Mostly it is pending then, behind the others of the lane.
      const isCancelled = this.#random() < CANCELLED;
      const submitted = this.#submit(entry, { cancelsAfter: isCancelled ? 0 : undefined });
      await submitted.catch((error) => this.#problem(key, String(error)));
    }
  }

  // Outbox

  #beginPut(agent: string, id: string): void {
    const put: Put = { id, to: oneOf(this.#random, ["webhook", "accept", "stubborn"] as const) };
    const entry = this.#add<PutEntry>({
      ...{ kind: "put", agent, id, to: put.to, askedAt: Date.now() },
    });
    const answered = this.#client.insistOn<string>(agent, "putEvent", put);
    this.#run(
      id,
      answered.then((deliveryId) => {
        if (deliveryId === undefined) return;
        this.count(`outbox.put to ${put.to}`);
        entry.acceptedAt = Date.now();
        if (deliveryId !== id) this.#problem(id, `put() returned the id ${deliveryId}`);
      }),
    );
  }

  // Inbound webhooks

  #beginArrival(agent: string, id: string): void {
    this.#sendArrival(agent, id, this.#random() < 0.5 ? "note" : "submit");
  }

  /** Sends a webhook up to three times: at once, or after its first answer. */
  #sendArrival(agent: string, key: string, type: ArrivalBody["type"]): void {
    const random = this.#random;
    const ask =
      type === "submit"
        ? { ...planAsk(random, { agent, key, now: Date.now() }), hasBoom: false }
        : undefined;
    const plain = ask && { ...ask, whenBusy: "enqueue" as const };
    const entry = this.#add<ArrivalEntry>({
      ...{ kind: "arrival", agent, id: key, type, askedAt: Date.now(), verdicts: [] },
      ...(plain && { ask: plain }),
    });
    const body: ArrivalBody = { type, agent, key, ...(plain && { ask: plain }) };
    const times = between(random, 1, 3);
    const waitMs = type === "step" ? between(random, 0, 4_000) : 0;
    const isTogether = random() < 0.5;
    const send = async () => {
      const verdict = await this.#sender.send(key, body);
      if (verdict === undefined) return;
      this.count("inbound webhook");
      entry.verdicts.push(verdict);
      entry.acceptedAt ??= Date.now();
    };
    const sendAll = async () => {
      await delay(waitMs);
      if (isTogether) await Promise.all(Array.from({ length: times }, send));
      else for (let time = 0; time < times; time++) await send();
    };
    this.#run(key, sendAll());
  }
}

function isLane(entry: Entry, thread?: string): boolean {
  if (entry.kind !== "submission") return false;
  if (thread !== undefined) return entry.ask.thread === thread;
  return (LANES as readonly string[]).includes(entry.ask.thread);
}
