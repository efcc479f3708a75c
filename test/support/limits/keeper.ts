/** Keepers of limits for tests. */

import { env } from "cloudflare:workers";
import type { Ask, Lent, Return, Rules } from "../../../src/features/limits/keeper/protocol.ts";
import { type KeeperScript, keeperScripts } from "../objects/keeper-object.ts";
import { accessTo } from "../objects/objects.ts";

/** A keeper by its name: a stub does not survive a crash. */
export type GivenKeeper = { readonly name: string };

const access = accessTo(() => env.LIMIT_KEEPER);
export const { inside, crash } = access;

export function givenKeeper(
  script: KeeperScript = {},
  name: string = crypto.randomUUID(),
): GivenKeeper {
  keeperScripts.set(name, script);
  return { name };
}

/** A new stub. */
export const stubOf = ({ name }: GivenKeeper) => env.LIMIT_KEEPER.getByName(name);

export const perSecond = (requests: number): Rules => ({
  requests: { amount: requests, window: { ms: 1_000 } },
});
export const perMinute = (requests: number): Rules => ({
  requests: { amount: requests, window: { ms: 60_000 } },
});

let tickets = 0;

/** An ask for a request, as `more` changes it. */
export function askFor(rules: Rules, more: Partial<Ask> = {}): Ask {
  const ticket = `ticket-${++tickets}`;
  return {
    ticket,
    key: "",
    rules,
    need: rules.slots ? { slots: 1 } : { requests: 1 },
    waitedMs: 0,
    ...more,
  };
}

/** Gives a lease back, of which nothing was used. */
export function returnOf({ key, rules, ticket }: Ask, { lease, lent }: Lent, used = {}): Return {
  return { key, rules, ticket, lease, lent, used, usedAgoMs: 0 };
}
