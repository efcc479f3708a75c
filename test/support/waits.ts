/** Waits on a plain object: opened, inspected, and after crashes. */

import { env } from "cloudflare:workers";
import type { Json } from "../../src/core/json.ts";
import type { WaitRequest } from "../../src/workflow/waits/protocol.ts";
import { STATUS } from "../../src/workflow/waits/wait-job.ts";
import { accessTo } from "./objects/objects.ts";
import { type WaitsObject, type WaitsScript, waitsScripts } from "./objects/waits-object.ts";

export type Capability = DurableObjectStub<WaitsObject>;

/** A new object whose kinds do what the script says. */
export function givenWaits(script: WaitsScript = {}): Capability {
  const name = `waits-${crypto.randomUUID()}`;
  waitsScripts.set(name, script);
  return env.WaitsObject.getByName(name);
}

export const { inside, crash, wake } = accessTo(() => env.WaitsObject);

/** The object starts again after a crash, without a call of the app. */
export function start(stub: Capability): Promise<void> {
  return inside(stub, ({ lifecycle }) => lifecycle.start().then(() => {}));
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

export function open(stub: Capability, request: WaitRequest) {
  return inside(stub, ({ waits }) => waits.open(request));
}

export type StoredWait = {
  wait_id: string;
  status: string;
  settled_at: number | null;
  done_at: number | null;
  wake_at: number | null;
  expires_at: number;
};

/** The rows, oldest first. */
export function rowsOf(stub: Capability): Promise<StoredWait[]> {
  return inside(stub, (_, { storage: { sql } }) => {
    const made = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_jobs'").toArray();
    const query = `SELECT id AS wait_id, ${STATUS} AS status, ended_at AS settled_at, due_at AS wake_at, expires_at,
        iif(due_at IS NULL, ended_at, NULL) AS done_at, data ->> '$.run' AS run, key AS idempotency_key, *
      FROM perdure_jobs ORDER BY created_at, seq`;
    return made.length === 0 ? [] : sql.exec<StoredWait>(query).toArray();
  });
}
