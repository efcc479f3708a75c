/** A plain object crashes at any write or delivery of the start of a workflow, which is started once. */

import { env } from "cloudflare:workers";
import { workflow } from "../../../src/outbox/index.ts";
import { type Plans, planned, playMatrix } from "../../support/crash/matrix.ts";
import { differs, inObject, surely, wakeAll } from "../../support/crash/objects.ts";
import { until } from "../../support/given.ts";
import type { OutboxObject } from "../../support/objects/outbox-object.ts";
import { wakesOf } from "../../support/outbox.ts";
import { counted } from "../recipients.ts";

/** `ctx` is protected to everybody but the object itself. */
type Inner = Pick<OutboxObject, "lifecycle" | "outbox"> & { readonly ctx: DurableObjectState };

const isStarted = async (id: string) => (counted.get(id) ?? 0) > 0;

/** The caller asks whether its transaction has committed, before it repeats it. */
async function order(object: OutboxObject, id: string): Promise<void> {
  const { lifecycle, outbox, ctx } = object as unknown as Inner;
  await lifecycle.start();
  const { sql } = ctx.storage;
  ctx.storage.transactionSync(() => {
    sql.exec("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)");
    const isNew = sql.exec("INSERT OR IGNORE INTO orders VALUES (?) RETURNING id", id).toArray();
    if (isNew.length === 0) return;
    outbox.put(workflow("WAITING_WORKFLOW", { id, params: "count" }));
  });
}

const STARTS: Plans = {
  "a workflow is started with a transaction": planned<OutboxObject>({
    verbs: [],
    soonAfter: /DELETE FROM perdure_outbox/,
    objects: env.OutboxObject,
    steps: [(stub, { id }) => inObject(stub, (object: OutboxObject) => order(object, id))],
    isOver: async (stub, { id }) =>
      (await isStarted(id)) &&
      inObject(stub, async (_, ctx) => {
        const open = "SELECT 1 FROM perdure_outbox UNION ALL SELECT 1 FROM perdure_outbox_ended";
        return ctx.storage.sql.exec(open).toArray().length === 0;
      }),
    touch: wakeAll,
    check: async (_, run) => {
      const isQuiet = () =>
        inObject(run.stub(), async (_object, ctx) => {
          const { job, alarm } = await wakesOf(ctx);
          return job === null && alarm === null;
        });
      return [
        ...differs("W6 the effects of the workflow are", counted.get(run.id), 1),
        ...((await surely(() => until(isQuiet).catch(isQuiet)))
          ? []
          : ["O5 it holds a job or an alarm"]),
      ];
    },
  }),
};

// outbox/crash.test.ts accounts for the verbs of the outbox.
playMatrix("W6", STARTS, { owners: {}, harmless: {} });
