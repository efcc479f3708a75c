/** Limits for operators, as a list. */

import type { Called, Column, List, Query } from "../../../engine/operated/list.ts";
import type { LimitControls, LimitState, LimitUse } from "../controls.ts";
import type { Action } from "./catalog.ts";

type Stub = { readonly limits: Called<Pick<LimitControls, "list">> };

const AMOUNTS = ["requests", "tokens", "usd", "concurrency"] as const;

const used = (name: (typeof AMOUNTS)[number]): Column<LimitState> => [
  "gauge",
  (state) => {
    const use = state[name];
    return use?.lowered === undefined ? use : { ...use, allowed: use.lowered };
  },
];

const FREE: LimitUse = { used: 0, amount: 1 };

function stateOf(state: LimitState): string {
  if (state.pausedAt !== undefined) return "paused";
  if (state.closedUntil !== undefined) return "closed";
  const isFull = AMOUNTS.some((name) => {
    const { used, amount, allowed = amount, lowered = allowed } = state[name] ?? FREE;
    return used >= lowered;
  });
  return isFull ? "full" : "active";
}

export const LISTS: {
  readonly limits: List<LimitState, { name?: string; key?: string }, Action>;
} = {
  limits: {
    title: "Limits",
    letter: "m",
    empty: "No key is in use. What agents use of limits() appears here.",
    id: ({ limit, key, shard }) => `${limit}/${key}${shard === undefined ? "" : `#${shard}`}`,
    link: "Limit",
    columns: {
      State: ["status", stateOf],
      Limit: ["text", ({ limit }) => limit],
      Key: ["text", ({ key, shard }) => (shard === undefined ? key : `#${shard}`), 40],
      Requests: used("requests"),
      Tokens: used("tokens"),
      Dollars: used("usd"),
      Concurrency: used("concurrency"),
      Waiting: ["text", ({ waiting }) => waiting],
      Longest: ["duration", ({ waiting, longestWaitMs }) => waiting > 0 && longestWaitMs],
      Reason: ["text", ({ reason }) => reason, 40],
    },
    isWhole: true,
    filters: { name: "text", key: "text" },
    actions: ({ limit, key, pausedAt }) => [
      { do: pausedAt === undefined ? "pause-limit" : "resume-limit", limit, key },
    ],
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  limits: ({ limits }: Stub, query: Query) => limits.list(query),
};
