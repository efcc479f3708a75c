/** Looking into an outbox on a plain object, and making time pass for it. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type {
  Destination,
  WebhookDestination,
  WorkflowDestination,
} from "../../src/outbox/index.ts";
import { jobOf } from "./ledger.ts";
import { type OutboxObject, type OutboxScript, outboxScripts } from "./outbox-object.ts";

export type Box = DurableObjectStub<OutboxObject>;

/** A fresh object with an outbox that does what the script says. */
export function givenOutbox(script: OutboxScript): Box {
  const name = `outbox-${crypto.randomUUID()}`;
  outboxScripts.set(name, script);
  return env.OutboxObject.getByName(name);
}

/** Runs `work` in the object's present life, which may begin with it; starts no outbox. */
export function inside<T>(
  box: Box,
  work: (object: OutboxObject, ctx: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  // A stub does not outlive an abort.
  return runInDurableObject(env.OutboxObject.getByName(box.name ?? ""), work);
}

/** The object dies; what it had committed stays. */
export async function crashBox(box: Box): Promise<void> {
  await inside(box, async (_, ctx) => {
    await ctx.storage.sync();
    ctx.abort("crash");
  }).catch(() => {});
}

/** Its jobs become due, and its alarm comes. Returns false when it has none. */
export async function wakeBox(box: Box): Promise<boolean> {
  await inside(box, (_, ctx) => {
    if (jobOf("perdure.outbox", ctx) === null) return;
    ctx.storage.sql.exec("UPDATE cf_agents_jobs SET time = min(time, ?)", Date.now());
  });
  return runDurableObjectAlarm(env.OutboxObject.getByName(box.name ?? ""));
}

/** What it holds to be woken by. */
export async function wakesOf(ctx: DurableObjectState) {
  return { job: jobOf("perdure.outbox", ctx), alarm: await ctx.storage.getAlarm() };
}

/** Rows that belong to nothing, and rows whose parts are gone. Empty before the first start. */
export function orphansIn({ storage: { sql } }: DurableObjectState): string[] {
  const inParts = `SELECT id FROM perdure_outbox WHERE payload IS NULL
    UNION SELECT id FROM perdure_dead_letters WHERE payload IS NULL
    UNION SELECT id FROM perdure_delivered WHERE payload IS NULL`;
  const parts = "SELECT DISTINCT id FROM perdure_outbox_parts";
  const ids = (query: string) =>
    sql
      .exec<{ id: string }>(query)
      .toArray()
      .map(({ id }) => id);
  return [
    ...ids(`${parts} EXCEPT SELECT id FROM (${inParts})`).map(
      (id) => `parts of ${id} belong to nothing`,
    ),
    ...ids(`SELECT id FROM (${inParts}) EXCEPT ${parts}`).map((id) => `parts of ${id} are gone`),
  ];
}

export function workflowNamed(
  instance: string,
  policy?: WorkflowDestination["policy"],
): WorkflowDestination {
  return {
    kind: "workflow",
    workflow: "W",
    instance,
    eventType: "test",
    ...(policy && { policy }),
  };
}

export const WEBHOOK: WebhookDestination = {
  kind: "webhook",
  url: "https://example.com/hook",
  secrets: ["S"],
};

/** An outbox whose destinations do what `deliver` says, and what has come to them. */
export function givenListening(script: Partial<OutboxScript> = {}) {
  const came: string[] = [];
  const box = givenOutbox({
    ...script,
    deliver: async (sent, to, object) => {
      came.push(`${sent.id}#${sent.attempt}`);
      await script.deliver?.(sent, to, object);
    },
  });
  return { box, came };
}

/** Puts events with these ids into an outbox that has started. */
export function putAll(
  box: Box,
  ids: readonly string[],
  to: Destination = workflowNamed("plain"),
  event: unknown = 1,
) {
  return inside(box, async ({ lifecycle, outbox }) => {
    await lifecycle.start();
    for (const id of ids) outbox.put(to, event, { id });
  });
}
