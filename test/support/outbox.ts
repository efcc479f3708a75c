/** An outbox on a plain object: inspected, woken and crashed. */

import { env } from "cloudflare:workers";
import type {
  Destination,
  WebhookDestination,
  WorkflowDestination,
} from "../../src/outbox/index.ts";
import { jobOf } from "./ledger.ts";
import { accessTo } from "./objects/objects.ts";
import { type OutboxObject, type OutboxScript, outboxScripts } from "./objects/outbox-object.ts";

export type Box = DurableObjectStub<OutboxObject>;

/** A new object whose outbox does what the script says. */
export function givenOutbox(script: OutboxScript): Box {
  const name = `outbox-${crypto.randomUUID()}`;
  outboxScripts.set(name, script);
  return env.OutboxObject.getByName(name);
}

export const { inside, crash: crashBox, wake: wakeBox } = accessTo(() => env.OutboxObject);

/** Its job and its alarm. */
export async function wakesOf(ctx: DurableObjectState) {
  return { job: jobOf(ctx), alarm: await ctx.storage.getAlarm() };
}

/** Parts without a row, and rows without their parts. */
export function orphansIn({ storage: { sql } }: DurableObjectState): string[] {
  const inParts = `SELECT id FROM perdure_outbox WHERE payload IS NULL
    UNION SELECT id FROM perdure_outbox_ended WHERE payload IS NULL`;
  const made = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_values'").toArray();
  const parts =
    made.length === 0
      ? "SELECT '' AS id WHERE 0"
      : "SELECT DISTINCT substr(owner, 10) AS id FROM perdure_values WHERE owner LIKE 'delivery:%'";
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

/** An outbox whose destinations do what `deliver` says, and a record of what has arrived. */
export function givenListening(script: Partial<OutboxScript> = {}) {
  const came: string[] = [];
  const box = givenOutbox({
    ...script,
    deliver: async (sent, to, object, attempt) => {
      came.push(`${sent.id}#${sent.attempt}`);
      await script.deliver?.(sent, to, object, attempt);
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
