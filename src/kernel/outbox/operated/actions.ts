/** The actions of operators on dead letters and endpoints. */

import type { Clock } from "../../../core/clock.ts";
import { PAGE } from "../../../core/operated/bulk-page.ts";
import type { OnMany, OnOne } from "../../../core/operated/catalog.ts";
import { done, failed, NOT_FOUND, UNCHANGED } from "../../../core/operated/effect.ts";
import type { Bulk, BulkRequest, ItemVerb } from "../../../core/operated/part.ts";
import { withoutSecrets } from "../destinations/index.ts";
import { DEAD_LETTER_FILTER } from "../filters.ts";
import type { Outbox } from "../outbox.ts";
import { DEAD_LETTERS as LETTERS } from "../store/dead-letters.ts";
import type { ACTIONS, Filters } from "./catalog.ts";

/** The agent as these actions see it. */
export type Operated = {
  readonly clock: Clock;
  readonly agent: {
    readonly outbox: Pick<
      Outbox,
      | "inspect"
      | "redrive"
      | "listDeadLetters"
      | "countDeadLetters"
      | "deleteDeadLetter"
      | "inspectEndpoint"
      | "enableEndpoint"
      | "disableEndpoint"
    >;
  };
  readonly capabilities: { readonly outbox: Outbox };
};

type Verbs = { [Name in keyof typeof ACTIONS]: ItemVerb<Operated, OnOne<typeof ACTIONS, Name>> };

/** Why a dead letter was not redriven. */
const DISABLED = new Error("Its endpoint is disabled. Enable the endpoint first.");

const endpoint = (
  state: "healthy" | "disabled",
  act: ItemVerb<Operated, { url: string }>["act"],
): ItemVerb<Operated, { url: string }> => ({
  look: async ({ agent }, { url }) =>
    (await agent.outbox.inspectEndpoint(url)).state === state ? UNCHANGED : done(),
  act,
  after: ({ agent }, { url }) => agent.outbox.inspectEndpoint(url),
});

export const VERBS: Verbs = {
  redrive: {
    async look({ agent, clock }, { deliveryId }) {
      const found = await agent.outbox.inspect(deliveryId);
      if (!found) return NOT_FOUND;
      const isLater = found.state === "waiting" && found.dueAt > clock.now();
      return isLater || found.state === "dead" ? done() : UNCHANGED;
    },
    async act({ agent }, { deliveryId }) {
      if (await agent.outbox.redrive(deliveryId)) return true;
      const found = await agent.outbox.inspect(deliveryId);
      return found?.state === "dead" && failed(deliveryId, DISABLED);
    },
    after: ({ agent }, { deliveryId }) => agent.outbox.inspect(deliveryId),
  },
  "delete-dead-letter": {
    look: async ({ agent }, { deliveryId }) =>
      (await agent.outbox.inspect(deliveryId))?.state === "dead" ? done() : NOT_FOUND,
    act: ({ agent }, { deliveryId }) => agent.outbox.deleteDeadLetter(deliveryId),
  },
  "enable-endpoint": endpoint("healthy", async ({ agent }, { url }) => {
    await agent.outbox.enableEndpoint(url);
    return true;
  }),
  "disable-endpoint": endpoint("disabled", async ({ agent }, { url }, { reason }) => {
    await agent.outbox.disableEndpoint(url, reason);
    return true;
  }),
};

type Many = OnMany<typeof ACTIONS, Filters>;

/** By default, a redrive leaves out those that may have been delivered. */
function filterOf({ action, cursor }: BulkRequest<Many>, limit: number) {
  const isUncertain = action.do === "redrive" ? { isUncertain: false } : {};
  const { cause: _, ...filter } = action.filter;
  return { ...isUncertain, ...filter, limit, ...(cursor !== undefined && { cursor }) };
}

export const DEAD_LETTERS: Bulk<Operated, Many> = {
  filter: DEAD_LETTER_FILTER,
  check: async ({ agent }, request) => {
    await agent.outbox.listDeadLetters(filterOf(request, 1));
  },
  /** With a cause, a page: the events of all would be read. */
  async count({ agent, capabilities }, request, most) {
    const { action, matches } = request;
    const page = await agent.outbox.listDeadLetters(filterOf(request, matches ? PAGE : most));
    const found = page.items.filter(({ lastError }) => matches?.(lastError) !== false);
    const rows = found.slice(0, most).map(({ id, lastError: error }) => ({ id, error }));
    if (matches) return { count: found.length, rows, cursor: page.cursor };
    const count =
      action.do === "redrive"
        ? capabilities.outbox.countRedrivable(action.filter)
        : agent.outbox.countDeadLetters(action.filter);
    return { count: await count, rows };
  },
  async run({ agent }, request, page) {
    const change = async (id: string) => {
      if (request.action.do === "delete-dead-letter") return agent.outbox.deleteDeadLetter(id);
      if (await agent.outbox.redrive(id)) return true;
      if ((await agent.outbox.inspect(id))?.state === "dead") throw DISABLED;
      return false;
    };
    const found = await agent.outbox.listDeadLetters(filterOf(request, PAGE));
    for (const { id, diedAt, lastError } of found.items) {
      if (request.matches?.(lastError) === false) continue;
      await page.item(id, () => change(id));
      if (page.isOver) return LETTERS.at(diedAt, id);
    }
    return found.cursor;
  },
  shown: ({ filter }) => {
    const { destination: to } = filter;
    return { ...filter, ...(to !== undefined && { destination: withoutSecrets(to) }) };
  },
};
