/** Versions and open work for operators, as lists. */

import type { List, Query } from "../../../engine/operated/list.ts";
import type { Page } from "../../../engine/page.ts";
import type { DeployedVersion, OpenItem, WorkflowHistory } from "../types.ts";

type Stub = { readonly callKernel: (name: string, ...args: unknown[]) => Promise<unknown> };

/** The calls that deployments() adds to an agent. */
const callsOf = ({ callKernel }: Stub) => ({
  list: (page: Query) => callKernel("deployments.list", page) as Promise<Page<DeployedVersion>>,
  work: (options: Query | { readonly id: string }) =>
    callKernel("deployments.work", options) as Promise<Page<OpenItem>>,
  history: (workflowId: string) =>
    callKernel("deployments.history", workflowId) as Promise<WorkflowHistory | null>,
});

/** An item of open work, a workflow with its history. */
export type OpenItemDetails = OpenItem & { readonly history?: WorkflowHistory };

const NO_VERSION = "(none)";

export const LISTS: {
  readonly versions: List<DeployedVersion>;
  readonly work: List<OpenItem>;
} = {
  versions: {
    title: "Versions",
    letter: "v",
    empty: "No version yet. Those that deployments() has started with appear here.",
    id: ({ version, workflow }) =>
      `${workflow === undefined ? "" : `${workflow}/`}${version ?? NO_VERSION}`,
    link: "Version",
    columns: {
      State: ["status", ({ isCurrent }) => (isCurrent ? "active" : "old")],
      Version: ["text", ({ version }) => version ?? NO_VERSION, 40],
      Workflow: ["text", ({ workflow }) => workflow ?? "", 40],
      Since: ["time", ({ since }) => since ?? undefined],
      Open: [
        "text",
        ({ open, isCut }) =>
          `${Object.entries(open)
            .map(([kind, count]) => `${kind} ${count}`)
            .join(", ")}${isCut ? " or more" : ""}`,
        100,
      ],
    },
    isWhole: true,
  },
  work: {
    title: "Open work",
    letter: "k",
    empty: "Nothing is open. What the agent has accepted and not ended appears here.",
    id: ({ kind, id }) => `${kind}/${id}`,
    link: "Item",
    columns: {
      Kind: ["text", ({ kind }) => kind],
      Item: ["id", ({ id }) => id],
      Version: ["text", ({ version }) => version ?? NO_VERSION, 40],
      Since: ["time", ({ since }) => since],
    },
  },
};

/** Each list, as the API reads it from the agent. */
export const READS = {
  versions: (stub: Stub, query: Query) => callsOf(stub).list(query),
  work: (stub: Stub, query: Query) => callsOf(stub).work(query),
};

/** Each item with its details. */
export const OPENS = {
  work: async (stub: Stub, id: string): Promise<OpenItemDetails | null> => {
    const { work, history } = callsOf(stub);
    const [item] = (await work({ id })).items;
    if (!item) return null;
    const found = item.kind === "workflow" ? await history(item.id) : null;
    return { ...item, ...(found && { history: found }) };
  },
};
