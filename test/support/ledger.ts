/** Looking into an object of the light host, and ending its life. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { Destination, OutboxSettings, WorkflowDestination } from "../../src/outbox/index.ts";
import type {
  SubmissionInspection,
  SubmissionStatus,
  Turn,
  TurnEnd,
} from "../../src/submissions/index.ts";
import type { InternalSubmitOptions } from "../../src/submissions/types.ts";
import { givenLedger, message, until } from "./given.ts";
import { delivered, type LedgerObject, outboxSettings, type TurnScript } from "./ledger-object.ts";

export type Ledger = DurableObjectStub<LedgerObject>;

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** For work that never ends. */
export const forever = () => new Promise<never>(() => {});

/** A fresh object whose outbox is set up as said. */
export function givenLedgerWith(settings: OutboxSettings): Ledger {
  const stub = givenLedger();
  outboxSettings.set(stub.name ?? "", settings);
  return stub;
}

/** The same object, in its next life: a stub does not outlive an abort. */
export function again(stub: Ledger): Ledger {
  return env.LedgerObject.getByName(stub.name ?? "");
}

/** Runs `work` in the object, without starting its rooms. */
export function within<T>(
  stub: Ledger,
  work: (object: LedgerObject, ctx: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  return runInDurableObject(stub, work);
}

/** This one object dies; what it had committed stays. Returns its next life, not yet begun. */
export async function crashOne(stub: Ledger): Promise<Ledger> {
  await runInDurableObject(stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
  return again(stub);
}

/** Turns of this one submission do what the test says, in place of their script. */
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

/** Holds up whoever comes to `pass()` inside the object, until the test opens it for the first of them. */
export function givenWait() {
  const waiting: (() => void)[] = [];
  return {
    pass: () => new Promise<void>((resolve) => waiting.push(resolve)),
    /** Somebody is held up. */
    reached: () => until(() => waiting.length > 0, 5_000),
    /** From within the object, which owns what goes on then. */
    open: (stub: Ledger) => within(stub, () => waiting.shift()?.()),
  };
}

/** When the job of a room is due, or null when it holds none. */
export function jobOf(room: string, { storage }: DurableObjectState): number | null {
  const { sql } = storage;
  // The queue makes its table with the first job.
  const table = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'cf_agents_jobs'").toArray();
  if (table.length === 0) return null;
  const jobs = sql.exec<{ time: number }>(
    "SELECT time FROM cf_agents_jobs WHERE capability = ?",
    room,
  );
  return jobs.toArray()[0]?.time ?? null;
}

/**
 * After a crash in an alarm that a test has let come: the next start sets the lost alarm again, and it would come at a
 * moment that no model knows. The jobs are due by the object's clock, which is ahead, and not by the platform's.
 */
export function notByItself({ storage }: DurableObjectState, now: number): void {
  storage.sql.exec("UPDATE cf_agents_jobs SET time = max(time, ?)", now);
}

/** A destination of its own for one test. */
export function somewhere(): WorkflowDestination {
  return {
    kind: "workflow",
    workflow: "PROMPT_WORKFLOW",
    instance: `instance-${crypto.randomUUID()}`,
    eventType: "test",
  };
}

/** Submits by the capability itself, in the object: RPC would lose the classes of errors. */
export function submit(stub: Ledger, text: TurnScript | string, options?: InternalSubmitOptions) {
  return within(stub, ({ submissions }) => submissions.accept([message(text)], options));
}

/** Puts events into the outbox as a room would, and lets them go. */
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

/** The delivery ids of what has come to a destination. */
export function idsAt({ instance }: { instance: string }): string[] {
  return (delivered.get(instance) ?? []).map(({ id }) => id);
}

/** Waits until something has come to a destination. */
export function arrived(to: { instance: string }, timeoutMs = 5_000): Promise<string[]> {
  return until(() => idsAt(to).length > 0 && idsAt(to), timeoutMs);
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
  timeoutMs = 5_000,
): Promise<SubmissionInspection> {
  const look = () => within(stub, (object) => object.inspect(submissionId));
  const isThere = async () => {
    const found = await look();
    return (
      found?.status === status &&
      Object.entries(facts).every(([key, value]) => Reflect.get(found, key) === value)
    );
  };
  await until(isThere, timeoutMs).catch(() => {});
  const found = await look();
  expect(found).toMatchObject({ status, ...facts });
  if (!found) throw new Error(`No submission ${submissionId}`);
  return found;
}
