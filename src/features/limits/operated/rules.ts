/** What can be wrong with limits. One function for each cause. */

import type * as operated from "../../../engine/operated/part.ts";
import { at, line, plural, verb } from "../../../engine/operated/text.ts";
import type { LimitWaits } from "../../../submissions/store/limit-waits.ts";
import type { LimitState, LimitUse } from "../controls.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** Shorter waits are what a limit is for. */
const LONG_MS = 5 * 60_000;
/** A pause that was forgotten. */
const FORGOTTEN_MS = 7 * 86_400_000;
/** A person who waits for an answer has given up by then. */
const LATE_MS = 60 * 60_000;
/** Money is nearly used. */
const NEARLY = 0.8;

export type LimitFacts = {
  /** Of the submissions of this agent. */
  readonly waits: readonly LimitWaits[];
  /** Of the keepers that have answered. */
  readonly states: readonly LimitState[];
  /** Limits whose keepers have not answered. */
  readonly unreachable: readonly { readonly limit: string; readonly error: string }[];
  readonly unkeyed: readonly UnkeyedLimit[];
};

/** A limit whose key returned undefined for all recent turns of this agent. */
export type UnkeyedLimit = {
  readonly limit: string;
  /** Submissions, since when, and up to 10 of them. */
  readonly count: number;
  readonly since: number;
  readonly ids: readonly string[];
  /** Whether chat clients have called a model since the agent started. */
  readonly hasClients: boolean;
};

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
type Rule = operated.Rule<LimitFacts, Finding>;

type Named = { readonly limit: string; readonly key: string };

/** E.g. `key "acme" of the limit tenant`. */
const nameOf = ({ limit, key }: Named) =>
  `${key === "" ? "" : `key ${JSON.stringify(line(key))} of the `}limit ${line(limit)}`;

/** What a finding is about, and the list of it. */
const of = ({ limit, key }: Named) => ({
  about: `${limit}/${key}`,
  link: {
    view: "limits",
    filter: `name:${JSON.stringify(limit)}${key === "" ? "" : ` key:${JSON.stringify(key)}`}`,
  },
});

const NAMES = ["requests", "tokens", "concurrency"] as const;

/** The amounts of a key but its money, each with what is allowed of it now. */
function usesOf(state: LimitState) {
  return NAMES.flatMap((name) => {
    const use: LimitUse | undefined = state[name];
    return use ? [{ name, ...use, most: use.lowered ?? use.allowed ?? use.amount }] : [];
  });
}

const amount = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });

const limitFull: Rule = ({ states }, now) =>
  states
    .filter(({ pausedAt, waiting }) => pausedAt === undefined && waiting > 0)
    .flatMap((state) => {
      const full = usesOf(state).filter(({ used, most }) => used >= most);
      const { waiting, longestWaitMs, closedUntil } = state;
      if (full.length === 0 && closedUntil === undefined) return [];
      const uses = full.map(({ name, used, most }) => `${name} ${amount(used)} of ${amount(most)}`);
      const what =
        closedUntil === undefined
          ? `is full (${uses.join(", ")})`
          : `is closed by the provider until ${at(closedUntil, now)}`;
      return {
        code: "limit-full",
        ...of(state),
        severity: longestWaitMs >= LONG_MS ? "warning" : "info",
        title: `The ${nameOf(state)} ${what}: ${plural(waiting, "call")} of all agents ${verb(waiting, "waits", "wait")}.`,
        evidence: { count: waiting, since: now - longestWaitMs, ids: [] },
        cause:
          closedUntil === undefined
            ? "Agents ask for more than the limit allows."
            : "The provider has refused requests, and has said for how long.",
        fix: {
          text: "Nothing for a peak: work waits, and starts in turn. Otherwise raise the limit.",
        },
      } satisfies Finding;
    });

const waitsLong: Rule = ({ waits }, now) =>
  waits.flatMap((wait) => {
    const { count, since, ids, why } = wait;
    if (why === "paused" || now - since < LONG_MS) return [];
    return {
      code: "limit-waits-long",
      ...of(wait),
      severity: now - since >= LATE_MS ? "error" : "warning",
      title: `${plural(count, "submission")} ${verb(count, "waits", "wait")} for the ${nameOf(wait)}, the first since ${at(since, now)}.`,
      evidence: { count, since, ids },
      cause: CAUSES[why],
      fix: {
        text: "Raise the limit or its weight in share, or cancel what is no longer needed.",
      },
      link: { view: "submissions", filter: "status:pending" },
    } satisfies Finding;
  });

const CAUSES = {
  full: "Others use what the limit allows.",
  closed: "The provider has refused requests for a time.",
  unreachable: "The keeper of the limit does not answer.",
};

const limitPaused: Rule = ({ states, waits }, now) => {
  const paused = states.filter(({ pausedAt }) => pausedAt !== undefined);
  return paused.map((state) => {
    const { limit, key, reason = "", pausedAt = now } = state;
    const own = waits.filter((wait) => wait.limit === limit && wait.key === key);
    const ids = own.flatMap((wait) => wait.ids);
    return {
      code: "limit-paused",
      ...of(state),
      severity: own.length > 0 || now - pausedAt >= FORGOTTEN_MS ? "warning" : "info",
      title: `The ${nameOf(state)} is paused since ${at(pausedAt, now)}: ${line(reason)}`,
      evidence: { count: Math.max(1, ids.length), since: pausedAt, ids },
      cause: "An operator or the app has paused it for all agents.",
      fix: {
        text: "Resume it when the reason has gone.",
        action: { do: "resume-limit", limit, key },
      },
    } satisfies Finding;
  });
};

const limitMoney: Rule = ({ states }, now) =>
  states.flatMap((state) => {
    const { usd, windowEndsAt } = state;
    if (!usd || usd.used < NEARLY * usd.amount) return [];
    const isUsed = usd.used >= usd.amount;
    const until = windowEndsAt === undefined ? "" : ` until ${at(windowEndsAt, now)}`;
    return {
      code: "limit-money",
      ...of(state),
      severity: isUsed ? "warning" : "info",
      title: `The ${nameOf(state)} has used ${amount(usd.used)} of ${amount(usd.amount)} dollars${until}.`,
      evidence: { count: 1, ids: [] },
      cause: isUsed
        ? "The money is used, or lent to agents: what needs it waits or fails, as atEnd says."
        : "At 100 percent, what needs it waits or fails, as atEnd says.",
      fix: { text: "Raise usd, or pause the key." },
    } satisfies Finding;
  });

const limitLowered: Rule = ({ states }) =>
  states.flatMap((state) =>
    usesOf(state)
      .filter(({ allowed, amount }) => allowed !== undefined && allowed < amount)
      .map(
        ({ name, allowed = 0, amount: declared }) =>
          ({
            code: "limit-lowered",
            ...of(state),
            about: `${of(state).about} ${name}`,
            severity: "warning",
            title: `The provider allows ${amount(allowed)} ${name}, and the ${nameOf(state)} declares ${amount(declared)}.`,
            evidence: { count: 1, ids: [] },
            cause: "The account has less than declared, or others use it.",
            fix: {
              text: "Declare what the account has. Until then agents keep to what the provider allows.",
            },
          }) satisfies Finding,
      ),
  );

/** No provider has named these amounts. */
const limitSlowed: Rule = ({ states }) =>
  states.flatMap((state) => {
    const lowered = usesOf(state).filter((use) => use.lowered !== undefined);
    if (lowered.length === 0) return [];
    const uses = lowered.map((use) => `${amount(use.most)} of ${amount(use.amount)} ${use.name}`);
    return {
      code: "limit-slowed",
      ...of(state),
      severity: "info",
      title: `The provider has refused requests: agents use ${uses.join(" and ")} of the ${nameOf(state)} for now.`,
      evidence: { count: 1, ids: [] },
      cause: "It answered 429, and its headers named no limit.",
      fix: {
        text: "Declare what the account has. Agents use 2 percent more with each minute without a refusal.",
      },
    } satisfies Finding;
  });

const keeperUnreachable: Rule = ({ unreachable, waits }) =>
  unreachable.map(({ limit, error }) => {
    const own = waits.filter((wait) => wait.limit === limit);
    const ids = own.flatMap((wait) => wait.ids).slice(0, 10);
    return {
      code: "keeper-unreachable",
      about: limit,
      severity: "error",
      title: `The keeper of the limit ${line(limit)} does not answer.`,
      evidence: { count: Math.max(1, ids.length), ids, lastError: error },
      cause: "Its object fails or is overloaded, or the binding leads to another class.",
      fix: {
        text: "Deploy LimitKeeper with its binding and migration, or declare more shards.",
      },
      link: { view: "limits" },
    } satisfies Finding;
  });

const limitNotApplied: Rule = ({ unkeyed, states, unreachable }, now) =>
  unkeyed.map(({ limit, count, since, ids, hasClients }) => {
    const isUsed = [...states, ...unreachable].some((one) => one.limit === limit);
    const name = line(limit);
    const ofClients = hasClients ? ", nor to turns of chat clients" : "";
    return {
      code: "limit-not-applied",
      about: limit,
      // Agents without tenants may share the value with those that have them.
      severity: isUsed ? "info" : "warning",
      title:
        count > 0
          ? `The limit ${name} has not applied to any of ${plural(count, "turn")} since ${at(since, now)}${ofClients}: its key returned undefined for each.`
          : `The limit ${name} does not apply to turns of chat clients: its key returns undefined.`,
      evidence: { count: Math.max(1, count), ids, ...(count > 0 && { since }) },
      cause: "The turns do not have what its key reads, so nothing limits them.",
      fix: {
        text: "Pass metadata with what the key reads to submitMessages(), step.prompt(), runWorkflow() and tasks, or leave the limit out of limits() of this class.",
      },
      link: { view: "submissions" },
    } satisfies Finding;
  });

export const LIMIT_RULES: readonly Rule[] = [
  limitFull,
  waitsLong,
  limitPaused,
  limitMoney,
  limitLowered,
  limitSlowed,
  keeperUnreachable,
  limitNotApplied,
];
