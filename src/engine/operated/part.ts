/** What a module contributes for operators where the agent runs: its facts, its rules, and the effects of its actions. */

import type * as z from "zod";
import type { BulkPage, Rows } from "./bulk-page.ts";
import type { Question } from "./catalog.ts";
import type { Effect } from "./effect.ts";

/** One cause that the library knows. */
export type Finding<Code extends string = string, Act = unknown> = {
  /** Stable, e.g. `destination-fails`. docs/report.md has all of them. */
  readonly code: Code;
  /** The subject of the finding, e.g. a destination and its error: it stays while the count grows. Left out for the whole agent. */
  readonly about?: string;
  readonly severity: "error" | "warning" | "info";
  /** One sentence with numbers: `3 deliveries to hooks.example.com fail since 09:12 with 401.` */
  readonly title: string;
  readonly evidence: {
    readonly count: number;
    readonly since?: number;
    /** At most 10. */
    readonly ids: readonly string[];
    readonly lastError?: string;
  };
  /** The likely cause, one sentence. */
  readonly cause: string;
  /** What to do, one sentence, and the action that does it: the dashboard's button, and the command line's command. */
  readonly fix: { readonly text: string; readonly action?: Act };
  /** The page of the subject, for links: `{ view: "dead-letters", filter: "destination:..." }`. */
  readonly link: { readonly view: string; readonly filter?: string; readonly id?: string };
};

/** Finds one cause in the facts of a part. */
export type Rule<Facts, Found> = (facts: Facts, now: number) => readonly Found[];

/** What the report says of a part besides its findings. */
export type Summary = {
  /** Those of the catalog. */
  readonly counts: object;
  /** The questions that there is something to judge by. */
  readonly judges: readonly Question[];
  /** When the oldest work that needs a wake was accepted. Infinity: there is none. */
  readonly workSince?: number;
  /** Whether there is something to do, now or later. */
  readonly isBusy?: boolean;
  /** Ends per hour, and since when there are counts, where there are older rows. */
  readonly ends?: {
    readonly hourly: { readonly completed: readonly number[]; readonly failed: readonly number[] };
    readonly countedFrom: number | undefined;
  };
};

/** Who acts, and why. */
type Operator = { readonly by: string; readonly reason: string; readonly auditId: string };

/** An action on one item. */
export type ItemVerb<Agent, Of> = {
  /** What the action would do now. Writes nothing. */
  readonly look: (agent: Agent, action: Of) => Promise<Effect>;
  /** More for the result of a dry run, if `look()` says `done`. */
  readonly preview?: (agent: Agent, action: Of) => Promise<Pick<Effect, "runsAgain">>;
  /** Called if `look()` says `done`, for one item after the other. @returns false if nothing has changed */
  readonly act: (agent: Agent, action: Of, operator: Operator) => Promise<Effect | boolean>;
  /** The item as it is now. */
  readonly after?: (agent: Agent, action: Of) => Promise<unknown>;
  /** Whether `act()` is also called if `look()` says `unchanged`. Its result does not count then. */
  readonly isRepeatable?: true;
};

/** A page of an action on all that a filter selects. */
export type BulkRequest<Of> = {
  readonly action: Of;
  readonly reason: string;
  readonly cursor?: string | undefined;
  /** Whether a failure has one of the causes that are asked for. Undefined: all have. */
  readonly matches?: ((failure: string) => boolean) | undefined;
};

/** How the actions of a list work on all that a filter selects. The filter comes without its causes. */
export type Bulk<Agent, Of> = {
  readonly filter: z.ZodType;
  /** @throws for a filter or a cursor that is refused */
  readonly check: (agent: Agent, request: BulkRequest<Of>) => void | Promise<void>;
  /** How many a page would change, and the first of them. Writes nothing. */
  readonly count: (
    agent: Agent,
    request: BulkRequest<Of>,
    most: number,
  ) => Promise<{ count: number; rows: Rows; cursor?: string | undefined }>;
  /** Changes the items of one page. @returns the cursor of the next page */
  readonly run: (
    agent: Agent,
    request: BulkRequest<Of>,
    page: BulkPage,
  ) => Promise<string | undefined>;
  /** The filter for the audit log: it may have secrets. */
  readonly shown?: (action: Of) => object;
};

/** The rules, each of which may throw, and what there is besides. */
export type Health<Found> = {
  readonly rules: readonly (() => readonly Found[])[];
  readonly summary: Summary;
};

type Definition<Agent, Facts, Found> = {
  /** The questions that have no answer without its facts. */
  readonly answers: readonly Question[];
  /** Undefined: the agent does not have it. */
  readonly facts: (agent: Agent, now: number) => Promise<Facts | undefined>;
  readonly rules: readonly Rule<Facts, Found>[];
  readonly summary?: (facts: Facts) => Summary;
  /** By the name of the action. */
  readonly verbs?: Readonly<Record<string, ItemVerb<Agent, never>>>;
  /** By the name of the list. */
  readonly bulks?: Readonly<Record<string, Bulk<Agent, never>>>;
};

export type OperatedPart<Agent, Found = Finding> = Omit<
  Definition<Agent, never, Found>,
  "facts" | "rules" | "summary"
> & {
  /** Reads the facts. */
  readonly read: (agent: Agent, now: number) => Promise<Health<Found> | undefined>;
};

const NOTHING: Summary = { counts: {}, judges: [] };

export function operatedPart<Agent, Facts, Found>({
  facts,
  rules,
  summary,
  ...part
}: Definition<Agent, Facts, Found>): OperatedPart<Agent, Found> {
  return {
    ...part,
    read: async (agent, now) => {
      const found = await facts(agent, now);
      return found && healthOf(found, rules, summary?.(found) ?? NOTHING, now);
    },
  };
}

/** A feature that few apps install has its rules in its own code, and calls this. */
export function healthOf<Facts, Found>(
  facts: Facts,
  rules: readonly Rule<Facts, Found>[],
  summary: Summary,
  now: number,
): Health<Found> {
  return { rules: rules.map((rule) => () => rule(facts, now)), summary };
}
