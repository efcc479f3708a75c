/** The actions of operators on dead letters and endpoints. */

import type { Clock } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import { InvalidOptionError, invalidMessage } from "../../core/options/options.ts";
import { PAGE } from "../../engine/operated/bulk-page.ts";
import type { OnMany, OnOne } from "../../engine/operated/catalog.ts";
import { done, failed, NOT_FOUND, UNCHANGED } from "../../engine/operated/effect.ts";
import type { Bulk, BulkRequest, ItemVerb } from "../../engine/operated/part.ts";
import { withoutSecrets } from "../destinations/index.ts";
import { OPERATED_FILTER } from "../filters.ts";
import type { Outbox } from "../outbox.ts";
import { DEAD_LETTERS as LETTERS } from "../store/ended.ts";
import { DELIVERIES } from "../store/listing.ts";
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
      | "listDeliveries"
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

type Found = { readonly id: string; readonly lastError: string; readonly cursor: string };
type FoundPage = { readonly items: readonly Found[]; readonly cursor?: string | undefined };

/** A page of what a filter selects. By default, a redrive leaves out those that may have been delivered. */
async function pageOf(
  { agent }: Operated,
  { action, cursor }: BulkRequest<Many>,
  limit: number,
): Promise<FoundPage> {
  const { cause: _, state, isUncertain, ...filter } = action.filter;
  const page = { limit, ...(cursor !== undefined && { cursor }) };
  if (state === undefined) {
    const uncertain = isUncertain ?? (action.do === "redrive" ? false : undefined);
    const selection = { ...filter, ...(uncertain !== undefined && { isUncertain: uncertain }) };
    const { items, ...next } = await agent.outbox.listDeadLetters({ ...selection, ...page });
    return {
      ...next,
      items: items.map((one) => ({ ...one, cursor: LETTERS.at(one.diedAt, one.id) })),
    };
  }
  const { since, destination } = filter;
  const selection = { state, ...(destination !== undefined && { destination }) };
  const { items, ...next } = await agent.outbox.listDeliveries({ ...selection, ...page });
  const from = since === undefined ? 0 : new Date(since).getTime();
  return {
    ...next,
    items: items
      .filter(({ createdAt }) => createdAt >= from)
      .map((one) => ({
        id: one.id,
        lastError: ("lastError" in one && one.lastError) || "",
        cursor: DELIVERIES.at(one.createdAt, one.id),
      })),
  };
}

/** @throws InvalidOptionError for a state where the action works on dead letters only */
function checkState({ do: name, filter: { state, isUncertain } }: Many): void {
  if (state === undefined || (name === "redrive" && isUncertain === undefined)) return;
  const expected = "expected a redrive without isUncertain: these are no dead letters";
  throw new InvalidOptionError("state", invalidMessage("filter.state", preview(state), expected));
}

export const DEAD_LETTERS: Bulk<Operated, Many> = {
  filter: OPERATED_FILTER,
  check: async (operated, request) => {
    checkState(request.action);
    await pageOf(operated, request, 1);
  },
  /** With a cause, a page: the events of all would be read. */
  async count(operated, request, most) {
    const { agent, capabilities } = operated;
    const { action, matches } = request;
    const { state, ...filter } = action.filter;
    const isPaged = matches !== undefined || state !== undefined;
    const page = await pageOf(operated, request, isPaged ? PAGE : most);
    const found = page.items.filter(({ lastError }) => matches?.(lastError) !== false);
    const rows = found.slice(0, most).map(({ id, lastError: error }) => ({ id, error }));
    if (isPaged) return { count: found.length, rows, cursor: page.cursor };
    const count =
      action.do === "redrive"
        ? capabilities.outbox.countDeadLetters({ isUncertain: false, ...filter }, true)
        : agent.outbox.countDeadLetters(filter);
    return { count: await count, rows };
  },
  async run(operated, request, page) {
    const { agent } = operated;
    const change = async (id: string) => {
      if (request.action.do === "delete-dead-letter") return agent.outbox.deleteDeadLetter(id);
      if (await agent.outbox.redrive(id)) return true;
      if ((await agent.outbox.inspect(id))?.state === "dead") throw DISABLED;
      return false;
    };
    const found = await pageOf(operated, request, PAGE);
    for (const { id, lastError, cursor } of found.items) {
      if (request.matches?.(lastError) === false) continue;
      await page.item(id, () => change(id));
      if (page.isOver) return cursor;
    }
    return found.cursor;
  },
  shown: ({ filter }) => {
    const { destination: to } = filter;
    return { ...filter, ...(to !== undefined && { destination: withoutSecrets(to) }) };
  },
};
