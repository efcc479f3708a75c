/** What a test does to one object from outside. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { jobOf } from "../ledger.ts";

type Named = { readonly name?: string };

/**
 * Access to the objects of one class by their names: a stub does not survive a crash.
 */
export function accessTo<T extends Rpc.DurableObjectBranded>(
  objects: () => DurableObjectNamespace<T>,
) {
  const stubOf = ({ name = "" }: Named) => objects().getByName(name);

  /** Runs `work` in the object without starting its modules. */
  function inside<R>(
    object: Named,
    work: (object: T, ctx: DurableObjectState) => R | Promise<R>,
  ): Promise<R> {
    return runInDurableObject(stubOf(object) as never, work as never);
  }

  return {
    inside,

    /** The object crashes. What it has committed stays. */
    async crash(object: Named): Promise<void> {
      await inside(object, async (_, ctx) => {
        await ctx.storage.sync();
        ctx.abort("crash");
      }).catch(() => {});
    },

    /** The jobs become due, and the alarm comes. Returns false where none is set. */
    async wake(object: Named): Promise<boolean> {
      await inside(object, (_, ctx) => {
        if (jobOf(ctx) === null) return;
        ctx.storage.sql.exec("UPDATE cf_agents_jobs SET time = min(time, ?)", Date.now());
      });
      return runDurableObjectAlarm(stubOf(object) as never);
    },
  };
}
