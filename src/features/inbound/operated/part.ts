/** The log of arrivals for operators, where the agent runs. */

import { withTimeout } from "../../../core/clock.ts";
import { secretIn } from "../../../core/secrets.ts";
import { PAGE } from "../../../engine/operated/bulk-page.ts";
import type { OnMany, OnOne } from "../../../engine/operated/catalog.ts";
import { done, failed, NOT_FOUND } from "../../../engine/operated/effect.ts";
import {
  type Bulk,
  type BulkRequest,
  type ItemVerb,
  operatedPart,
} from "../../../engine/operated/part.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { InstalledInbound } from "../feature.ts";
import type { Inbound } from "../inbound.ts";
import { receiverSecrets } from "../offer.ts";
import { INBOUND_FILTER } from "../options.ts";
import type { ACTIONS, Filters } from "./catalog.ts";
import { INBOUND_RULES, type LockedEndpoint } from "./rules.ts";

/** The agent as these actions see it. */
type Operated = {
  readonly agent: { readonly inbound: Pick<Inbound, "inspect" | "replay"> };
  readonly capabilities: Pick<Kernel, "features">;
  readonly env: object;
};

/** Arrivals that are replayed before the time is looked at again. */
const REPLAYED_AT_A_TIME = 10;

/** @throws FeatureNotInstalledError */
function logOf({ capabilities }: Operated): Inbound {
  return (capabilities.features.get("inbound", "The action replay") as InstalledInbound).log;
}

/** A Secrets Store that hangs must not hold the report. */
const SECRET_TIMEOUT_MS = 2_000;

/** The receivers of this Worker that have none of their secrets: the modules that make them run where the agent runs, too. */
async function lockedEndpoints(env: object): Promise<LockedEndpoint[]> {
  const read = (name: string) =>
    withTimeout(secretIn(env, name), SECRET_TIMEOUT_MS).catch(() => "unknown");
  const all = Array.from(receiverSecrets, async ([source, secrets]) => {
    const values = await Promise.all(secrets.map(read));
    return values.some((value) => value !== undefined) ? [] : [{ source, secrets }];
  });
  return (await Promise.all(all)).flat();
}

const replay: ItemVerb<Operated, OnOne<typeof ACTIONS>> = {
  look: async ({ agent }, { source, id }) =>
    (await agent.inbound.inspect(source, id)) ? done() : NOT_FOUND,
  async act({ agent }, { source, id }) {
    const replayed = await agent.inbound.replay(source, id);
    if (!replayed) return NOT_FOUND;
    const { verdict, error } = replayed;
    if (verdict === "refused")
      return failed(`${source}/${id}`, new Error(error?.message ?? "It was refused."));
    return verdict === "accepted";
  },
  after: ({ agent }, { source, id }) => agent.inbound.inspect(source, id),
};

type Many = OnMany<typeof ACTIONS, Filters>;

function filterOf({ action }: BulkRequest<Many>, cursor: string | undefined) {
  const { cause: _, ...filter } = action.filter;
  return { ...filter, ...(cursor !== undefined && { cursor }) };
}

const many: Bulk<Operated, Many> = {
  filter: INBOUND_FILTER,
  check(operated, request) {
    // Without it, the action fails.
    if (operated.capabilities.features.has("inbound"))
      logOf(operated).checkReplay(filterOf(request, request.cursor));
  },
  async count(operated, request, most) {
    const options = { ...filterOf(request, request.cursor), limit: most };
    const { first, ...counted } = await logOf(operated).countReplayable(options, request.matches);
    const rows = first.map(({ source, id, failure }) => ({
      id: `${source}/${id}`,
      error: failure,
    }));
    return { ...counted, rows };
  },
  async run(operated, request, page) {
    let from = request.cursor;
    for (let done = 0; done < PAGE; ) {
      const options = { ...filterOf(request, from), limit: REPLAYED_AT_A_TIME };
      const found = await logOf(operated).replayMany(options, request.matches);
      const { replayed, failed } = found;
      page.count += replayed - failed.length;
      page.failed.push(
        ...failed.map(({ source, id, error }) => ({ id: `${source}/${id}`, error: error.message })),
      );
      from = found.cursor;
      // Without room, the next page would begin with the same arrival, and fail again.
      const isFull = failed.some(({ error }) => error.name === "InboundBusyError");
      if (isFull && page.count === 0) return undefined;
      if (from === undefined || isFull || page.isOver) break;
      done += Math.max(replayed, 1);
    }
    return from;
  },
};

export const PARTS = {
  inbound: operatedPart({
    answers: ["starts"],
    facts: async (operated: Operated, now) =>
      operated.capabilities.features.has("inbound")
        ? { ...(await logOf(operated).facts(now)), locked: await lockedEndpoints(operated.env) }
        : undefined,
    rules: INBOUND_RULES,
    summary: ({ counts }) => ({
      counts: { inbound: counts },
      judges: counts.accepted + counts.filtered + counts.refused > 0 ? ["starts"] : [],
    }),
    verbs: { replay } satisfies Record<keyof typeof ACTIONS, unknown>,
    bulks: { inbound: many },
  }),
};
