/** Waits on a plain object: asked for, looked into, and over the ends of its lives. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Json } from "../../src/core/json.ts";
import type { WaitRequest } from "../../src/waits/index.ts";
import { jobOf } from "./ledger.ts";
import { type WaitsObject, type WaitsScript, waitsScripts } from "./waits-object.ts";

export type Capability = DurableObjectStub<WaitsObject>;

/** A fresh object whose kinds do what the script says. */
export function givenWaits(script: WaitsScript = {}): Capability {
  const name = `waits-${crypto.randomUUID()}`;
  waitsScripts.set(name, script);
  return env.WaitsObject.getByName(name);
}

/** Runs `work` in the object's present life, which may begin with it. */
export function inside<T>(
  room: Capability,
  work: (object: WaitsObject, ctx: DurableObjectState) => T | Promise<T>,
): Promise<T> {
  // A stub does not outlive an abort.
  return runInDurableObject(env.WaitsObject.getByName(room.name ?? ""), work);
}

export async function crash(room: Capability): Promise<void> {
  await inside(room, async (_, ctx) => {
    await ctx.storage.sync();
    ctx.abort("crash");
  }).catch(() => {});
}

/** The next life begins, and nobody has asked for anything. */
export function start(room: Capability): Promise<void> {
  return inside(room, ({ lifecycle }) => lifecycle.start().then(() => {}));
}

/** The jobs become due, and the alarm comes. Returns false where there is none. */
export async function wake(room: Capability): Promise<boolean> {
  await inside(room, (_, ctx) => {
    if (jobOf("perdure.waits", ctx) === null && jobOf("perdure.outbox", ctx) === null) return;
    ctx.storage.sql.exec("UPDATE cf_agents_jobs SET time = min(time, ?)", Date.now());
  });
  return runDurableObjectAlarm(env.WaitsObject.getByName(room.name ?? ""));
}

/** A request of a workflow instance of its own. */
export function ask(
  rest: Partial<WaitRequest<Json>> & { instance?: string } = {},
): WaitRequest<Json> {
  const { instance = `instance-${crypto.randomUUID()}`, ...given } = rest;
  return {
    kind: "approval",
    idempotencyKey: `key-of-${instance}`,
    run: "run-1",
    workflow: { name: "W", id: instance, stepName: "step" },
    request: { title: null, data: null, schema: null },
    timeoutMs: 60_000,
    ...given,
  };
}

export function open(room: Capability, request: WaitRequest) {
  return inside(room, ({ waits }) => waits.open(request));
}

export type StoredWait = {
  wait_id: string;
  status: string;
  settled_at: number | null;
  done_at: number | null;
  wake_at: number;
  expires_at: number;
};

/** The rows, oldest first. */
export function rowsOf(room: Capability): Promise<StoredWait[]> {
  return inside(room, (_, { storage: { sql } }) => {
    const made = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_waits'").toArray();
    return made.length === 0
      ? []
      : sql.exec<StoredWait>("SELECT * FROM perdure_waits ORDER BY seq").toArray();
  });
}
