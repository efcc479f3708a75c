/** What the operator API, its clients and the agents exchange: plain JSON, no classes. Times are epoch milliseconds. */

import type { Json } from "../core/json.ts";
import type { ActionOf, Definition, Question } from "../engine/operated/catalog.ts";
import type { Effect } from "../engine/operated/effect.ts";
import type { Finding as OperatedFinding } from "../engine/operated/part.ts";
import type { Trace, TraceSpan } from "../engine/operated/spans.ts";
import type { Page, PageOptions } from "../engine/page.ts";
import type { ActionName, Actions, FindingCode, NO_COUNTS } from "./catalog.ts";
import type { Lists, OPENS, READS, SUBLISTS } from "./lists.ts";

import type { AuditEntry as ListedAudit } from "./operated/lists.ts";

export type { DeliveryDetails } from "../outbox/operated/lists.ts";
export type {
  CostRow,
  ThreadMessage,
  ThreadSummary,
} from "../submissions/operated/lists.ts";
export type { WorkflowDetails, WorkflowStep, WorkflowSummary } from "./operated/lists.ts";
export type { Page, PageOptions, Trace, TraceSpan };

/** An agent that the app names: the key of `agents` in `operator()`, and the name of the instance. */
export type AgentRef = { readonly agent: string; readonly name: string };

/** `unlisted` are keys of `agents` in `operator()` whose `names()` failed. */
export type AgentPage = Page<AgentRef> & { readonly unlisted?: readonly string[] };

// --- What can be listed -------------------------------------------------------------------------------------------

/** The items of each list of an agent. */
export type Collections = {
  readonly [Name in keyof typeof READS]: Name extends "actions"
    ? AuditEntry
    : ItemOf<(typeof READS)[Name]>;
};

/** An item with its details. An id of `inbound` is `source/id`, that of an endpoint is its URL. */
export type Details = {
  readonly [Name in keyof typeof OPENS]: NonNullable<Awaited<ReturnType<(typeof OPENS)[Name]>>>;
};

/** The lists below one item, by its collection. */
export type Parts = { readonly [Name in keyof typeof SUBLISTS]: ItemOf<(typeof SUBLISTS)[Name]> };

type ItemOf<Read extends (...args: never[]) => Promise<Page<unknown>>> = Awaited<
  ReturnType<Read>
>["items"][number];

/** Who the caller is, the token that a page of the same origin sends with actions, and the actions that there are. */
export type Session = {
  readonly id: string;
  readonly can: "read" | "act";
  readonly token: string;
  readonly actions: Readonly<Record<ActionName, Definition>>;
};

// --- Report -------------------------------------------------------------------------------------------------------

export type Severity = OperatedFinding["severity"];

/** One cause that the library knows. */
export type Finding = OperatedFinding<FindingCode, Action>;

/** The event that a webhook receives of `operations({ alerts })`. */
export type AlertEvent = AgentRef & {
  readonly type: "perdure.alert";
  readonly state: "open" | "over";
  /** The finding when the alert was announced. */
  readonly finding: Finding;
  /** Epoch milliseconds. */
  readonly at: number;
};

/** Of one agent. */
export type AgentReport = {
  readonly at: number;
  readonly counts: typeof NO_COUNTS;
  /** Ends per hour, the last 24 hours, oldest first: for sparklines. */
  readonly hourly: { readonly completed: readonly number[]; readonly failed: readonly number[] };
  /** Set where there are more than 1,000 submissions: `hourly` and the ended ones of `counts` have only those accepted since. */
  readonly countedFrom?: number | undefined;
  /** The four questions. `undefined`: nothing to judge by. */
  readonly verdicts: Readonly<Record<Question, boolean | undefined>>;
  /** Errors first. */
  readonly findings: readonly Finding[];
};

/** Of all agents that the app names. */
export type Report = {
  readonly at: number;
  readonly verdict: "healthy" | "findings";
  readonly agents: readonly (AgentRef &
    (
      | { readonly report: AgentReport }
      | { readonly unreachable: string; readonly errorName?: string }
    ))[];
  readonly findings: readonly (Finding & AgentRef)[];
  /** A report covers up to 50 agents. With the cursor, the next report covers the next ones. */
  readonly cursor?: string;
};

// --- Actions ------------------------------------------------------------------------------------------------------

/** The actions of operators. The API adds `reason` and the operator. */
export type Action = ActionOf<Actions, Filters>;

export type OperateRequest = {
  readonly action: Action;
  /** Who acts: what `authorize()` has returned. */
  readonly by: string;
  /** 1 to 500 characters. */
  readonly reason: string;
  /** Counts what a filter selects, and changes nothing. @default false */
  readonly dryRun?: boolean;
  /** The `cursor` of the result before, for a filter. */
  readonly cursor?: string;
};

/** A filter is worked off in pages of 100: call again with the cursor until there is none. */
export type OperateResult = Omit<Effect, "error"> & {
  /** The state after it: the inspection of what was changed. */
  readonly after?: Json;
  /** The id of the row in the audit log; left out for a dry run. */
  readonly auditId?: string;
};

export type AuditEntry = ListedAudit<Action>;

// --- Filters ------------------------------------------------------------------------------------------------------

/**
 * What each list can be filtered by. In a URL, a list of values is separated by commas, times are ISO 8601 or epoch
 * milliseconds, `destination` is JSON, and each value of `metadata` is a parameter `metadata.<key>`.
 */
export type Filters = { readonly [Name in keyof Lists]: NonNullable<Lists[Name]["filter"]> };
