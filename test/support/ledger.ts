/** Access to a LedgerObject, and its crashes. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { expect } from "vitest";
import type { Destination, OutboxSettings, WorkflowDestination } from "../../src/outbox/index.ts";
import type { Turn, TurnEnd } from "../../src/submissions/host.ts";
import { resultOf } from "../../src/submissions/intake/intake.ts";
import type { SubmissionStatus } from "../../src/submissions/states.ts";
import type { Submissions } from "../../src/submissions/submissions.ts";
import type { InternalSubmitOptions } from "../../src/submissions/submit-options.ts";
import type { IntakeResult } from "../../src/submissions/turns/turn-engine.ts";
import type { SubmissionInspection, SubmitMessagesResult } from "../../src/submissions/types.ts";
import { givenLedger, message, until } from "./given.ts";
import {
  delivered,
  type LedgerObject,
  outboxSettings,
  type TurnScript,
} from "./objects/ledger-object.ts";

export type Ledger = DurableObjectStub<LedgerObject>;

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Never resolves. */
export const forever = () => new Promise<never>(() => {});

/** A new object whose outbox has these settings. */
export function givenLedgerWith(settings: OutboxSettings): Ledger {
  const stub = givenLedger();
  outboxSettings.set(stub.name ?? "", settings);
  return stub;
}

/** The same object after a crash, which no stub survives. */
export function again(stub: Ledger): Ledger {
  return env.LedgerObject.getByName(stub.name ?? "");
}

/** Runs `work` in the object without starting its modules. */
export function within<T>(
  stub: Ledger,
  work: (object: LedgerObject, ctx: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(stub, work);
}

/** This one object crashes. What it has committed stays. Returns a new stub, whose object has not started yet. */
export async function crashOne(stub: Ledger): Promise<Ledger> {
  await runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
  return again(stub);
}

/** The turns of this one submission run `play` in place of their script. */
export function playing(
  stub: Ledger,
  submissionId: string,
  play: (turn: Turn, object: LedgerObject) => Promise<TurnEnd>,
): Promise<void> {
  return within(stub, (object) => {
    const { turns } = object;
    const run = turns.run.bind(turns);
    turns.run = (turn) => (turn.submissionId === submissionId ? play(turn, object) : run(turn));
  });
}

/** Waits until a turn with `isHeld` has made its first call. */
export async function held(stub: Ledger, submissionId: string): Promise<void> {
  await until(() => within(stub, ({ turns }) => turns.held.has(submissionId)));
}

/** Lets a turn with `isHeld` go on, as soon as it has made its first call. */
export async function release(stub: Ledger, submissionId: string): Promise<void> {
  await held(stub, submissionId);
  await within(stub, ({ turns }) => {
    turns.held.get(submissionId)?.();
    turns.held.delete(submissionId);
  });
}

/** Callers inside the object wait in `pass()`. `open()` lets the first of them go on. */
export function givenWait() {
  const waiting: (() => void)[] = [];
  return {
    pass: () => new Promise<void>((resolve) => waiting.push(resolve)),
    /** Resolves when a caller waits. */
    reached: () => until(() => waiting.length > 0),
    /** Runs within the object, because its work continues there. */
    open: (stub: Ledger) => within(stub, () => waiting.shift()?.()),
  };
}

/** When the job of the object is due, or null when it has none. Those of its sub-agents are left out. */
export function jobOf({ storage }: DurableObjectState): number | null {
  const { sql } = storage;
  // The queue makes its table with the first job.
  const table = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'cf_agents_jobs'").toArray();
  if (table.length === 0) return null;
  const query = "SELECT time FROM cf_agents_jobs WHERE id LIKE '%:wake' ORDER BY time";
  return sql.exec<{ time: number }>(query).toArray()[0]?.time ?? null;
}

/**
 * After a crash in an alarm, the next start sets the alarm again, and it would come at a moment that a model cannot know.
 * This makes all jobs due by the object's clock, which is ahead of the platform's.
 */
export function notByItself({ storage }: DurableObjectState, now: number): void {
  storage.sql.exec("UPDATE cf_agents_jobs SET time = max(time, ?)", now);
}

/** A new destination. */
export function somewhere(): WorkflowDestination {
  return {
    kind: "workflow",
    workflow: "PROMPT_WORKFLOW",
    instance: `instance-${crypto.randomUUID()}`,
    eventType: "test",
  };
}

/** Submits inside the object: RPC would lose the classes of errors. */
export function submit(stub: Ledger, text: TurnScript | string, options?: InternalSubmitOptions) {
  return within(stub, ({ submissions }) => acceptOne(submissions, [message(text)], options));
}

/** Accepts with options that the app's own verb does not take. */
export async function acceptOne(
  submissions: Submissions,
  messages: UIMessage[],
  options?: InternalSubmitOptions,
): Promise<SubmitMessagesResult> {
  const [taken] = await submissions.accept([{ messages, options }]);
  return resultOf(taken as IntakeResult);
}

/** Puts events into the outbox in one transaction. */
export function send(
  stub: Ledger,
  entries: { id: string; to: Destination; payload?: unknown }[],
): Promise<void> {
  return within(stub, async ({ lifecycle, outbox }, { storage }) => {
    await lifecycle.start();
    storage.transactionSync(() => {
      for (const { id, to, payload } of entries) outbox.put(to, payload ?? null, { id });
    });
  });
}

/** The ids of the deliveries that a destination got. */
export function idsAt({ instance }: { instance: string }): string[] {
  return (delivered.get(instance) ?? []).map(({ id }) => id);
}

/** Waits until a destination got a delivery. */
export function arrived(to: { instance: string }): Promise<string[]> {
  return until(() => idsAt(to).length > 0 && idsAt(to));
}

/** Ids of the entries still to be delivered. */
export function waitingIn({ storage }: DurableObjectState): string[] {
  return storage.sql
    .exec<{ id: string }>("SELECT id FROM perdure_outbox ORDER BY id")
    .toArray()
    .map(({ id }) => id);
}

/** Every job of the object becomes due, and its alarm comes. */
export async function wakeNow(stub: Ledger): Promise<void> {
  await within(stub, (_, { storage }) => {
    storage.sql.exec("UPDATE cf_agents_jobs SET time = ? WHERE time > ?", Date.now(), Date.now());
  });
  await runDurableObjectAlarm(stub);
}

/** Waits until a submission has this status, and these facts with it. */
export async function expectState(
  stub: Ledger,
  submissionId: string,
  status: SubmissionStatus,
  facts: object = {},
): Promise<SubmissionInspection> {
  const look = () => within(stub, (object) => object.inspect(submissionId));
  const isThere = async () => {
    const found = await look();
    return (
      found?.status === status &&
      Object.entries(facts).every(([key, value]) => Reflect.get(found, key) === value)
    );
  };
  await until(isThere).catch(() => {});
  const found = await look();
  expect(found).toMatchObject({ status, ...facts });
  if (!found) throw new Error(`No submission ${submissionId}`);
  return found;
}
