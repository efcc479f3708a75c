/** The requests to a ledger alone. */

import type { LoadedLedger } from "./loaded-ledger.ts";

type Env = { readonly LoadedLedger: DurableObjectNamespace<LoadedLedger> };

export const ledgerRequests = {
  /** Fills the ledger of that name with ended submissions. Returns how long that took, in milliseconds. */
  storeEnded: ({ LoadedLedger }: Env, { name, count }: { name: string; count: number }) =>
    LoadedLedger.getByName(name).fill(count),

  /** Milliseconds of a submission that is accepted, claimed and settled, of so many. */
  passTime: ({ LoadedLedger }: Env, { name, times }: { name: string; times: number }) =>
    LoadedLedger.getByName(name).pass(times),

  /** The cost of one such submission. */
  passCost: ({ LoadedLedger }: Env, { name }: { name: string }) =>
    LoadedLedger.getByName(name).cost(),

  /** Adds pending submissions with a message of `bytes` to the ledger of that name. */
  hold: (
    { LoadedLedger }: Env,
    { name, count, bytes }: { name: string; count: number; bytes: number },
  ) => LoadedLedger.getByName(name).hold(count, bytes),

  /** Ends them. */
  drain: ({ LoadedLedger }: Env, { name }: { name: string }) =>
    LoadedLedger.getByName(name).drain(),
};
