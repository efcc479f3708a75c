/** What can be wrong with arrivals. One function for each cause. */

import { shownName } from "../../../core/secrets.ts";
import type * as operated from "../../../engine/operated/part.ts";
import { at, line, plural, verb } from "../../../engine/operated/text.ts";
import type { FailedArrival, InboundFacts } from "../facts.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** A handler with several calls may be between two of them. */
const UNFINISHED_MS = 60_000;
/** An arrival fails because of its content if so many later ones of its source have succeeded. */
const POISON_AFTER = 3;
/** No sender retries one arrival so often. */
const FLOOD = 100;
/** Fewer are retries, which senders make of a few arrivals. */
const FEW_REPEATS = 50;
const REPEATS_EACH = 10;
/** Fewer are strays: any client can send a request to a public URL. */
const FEW_REFUSED = 5;
/** Older ones are no longer replayed by their sender, and the operator has seen them. */
const WINDOW_MS = 24 * 3_600_000;

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
/** An endpoint of a receiver without any of its secrets. */
export type LockedEndpoint = { readonly source: string; readonly secrets: readonly string[] };
type Rule = operated.Rule<InboundFacts & { readonly locked: readonly LockedEndpoint[] }, Finding>;

const isPoison = ({ acceptedSince, verdict }: FailedArrival) =>
  acceptedSince >= POISON_AFTER && verdict !== "held";

/** Why arrivals have failed. */
type Failure = {
  readonly isOf: (one: FailedArrival, now: number) => boolean;
  /** The end of the title, after how many arrivals of which source. */
  readonly what: (
    first: FailedArrival,
    count: number,
    since: string,
  ) => readonly [before: string, after: string];
  readonly cause: string;
  readonly fix: string;
  readonly link: (first: FailedArrival) => Omit<Finding["link"], "view">;
};

const FAILURES = {
  "inbound-refused": {
    isOf: (one) => one.verdict === "refused" && !isPoison(one),
    what: ({ error }, count, since) => [
      "",
      `${verb(count, "was", "were")} refused since ${since} with ${line(error.name)}`,
    ],
    cause: "The handler of the source, or the method that it calls, has failed",
    fix: "First correct it and deploy, then replay them; their senders may also send them again.",
    link: ({ source }) => ({ filter: `source:${source} verdict:refused` }),
  },
  "inbound-unfinished": {
    isOf: (one, now) =>
      one.verdict === "accepted" && !isPoison(one) && now - one.storedAt >= UNFINISHED_MS,
    what: (_, __, since) => ["The handler of ", `has not ended since ${since}`],
    cause: "Some of its calls are done, and a later one has failed or was interrupted",
    fix: "First correct what the error names, then replay them: the calls that are done are not run again.",
    link: ({ source }) => ({ filter: `source:${source}` }),
  },
  "inbound-held": {
    isOf: ({ verdict }) => verdict === "held",
    what: (_, count, since) => [
      "",
      `${verb(count, "is", "are")} held since ${since}: nothing shows who sent ${verb(count, "it", "them")}`,
    ],
    cause: "The receiving server has not said whether From is genuine",
    fix: "Correct authenticationServer of email() if the server has another name. Look at them before you replay them: From may be forged.",
    link: ({ source }) => ({ filter: `source:${source} verdict:held` }),
  },
  "inbound-poison": {
    isOf: isPoison,
    what: ({ error, acceptedSince }, count, since) => [
      "",
      `${verb(count, "fails", "fail")} since ${since} with ${line(error.name)}, while ${acceptedSince} later ones were accepted`,
    ],
    cause: "The handler cannot process their content",
    fix: "First look at the body of one, correct the handler and deploy, then replay them.",
    link: ({ source, id }) => ({ id: `${source}/${id}` }),
  },
} as const satisfies { readonly [Code in Finding["code"]]?: Failure };

/** By source, verdict and cause: the newest of each, what is known of all, and what replays them. */
const failures = Object.entries<Failure>(FAILURES).map(
  ([code, of]): Rule =>
    ({ failed }, now) => {
      const recent = failed.filter((one) => now - one.storedAt < WINDOW_MS && of.isOf(one, now));
      const groups = Map.groupBy(recent, (one) => `${one.source}\n${one.verdict}\n${one.cause}`);
      return Array.from(groups.values(), (some): Finding => {
        const [first] = some as [FailedArrival];
        const { source, id, cause, verdict, storedAt, error } = first;
        const count = some.length;
        const since = Math.min(...some.map((one) => one.storedAt));
        const filter = { source, verdict, since, until: storedAt + 1, cause };
        const [before, after] = of.what(first, count, at(since, now));
        return {
          code: code as keyof typeof FAILURES,
          about: `${source} ${cause}`,
          severity: "error",
          title: `${before}${plural(count, "arrival")} of ${line(source)} ${after}.`,
          evidence: {
            count,
            since,
            ids: some.slice(0, 10).map((one) => `${source}/${one.id}`),
            lastError: error.message,
          },
          cause: `${of.cause}: ${line(error.message)}`,
          fix: {
            text: of.fix,
            action: { do: "replay", ...(count === 1 ? { source, id } : { filter }) },
          },
          link: { view: "inbound", ...of.link(first) },
        };
      });
    },
);

const inboundDuplicates: Rule = ({ repeats }, now) =>
  repeats
    .filter(
      ({ count, arrivals, most }) =>
        most.duplicates >= FLOOD || (count >= FEW_REPEATS && count >= REPEATS_EACH * arrivals),
    )
    .map(({ source, arrivals, count, most, hasConflict }): Finding => {
      const id = `${source}/${most.id}`;
      return {
        code: "inbound-duplicates",
        about: source,
        severity: "warning",
        title: `${plural(arrivals, "arrival")} of ${line(source)} ${verb(arrivals, "was", "were")} sent again ${count} times since ${at(most.storedAt, now)}.`,
        evidence: { count, since: most.storedAt, ids: [id] },
        cause: hasConflict
          ? "The sender uses one id for different bodies: only the first one is handled."
          : "The answers reach the sender too late or not at all, or its id does not tell its arrivals apart.",
        fix: {
          text: "Look at the sender's log: correct the id, or answer within its time limit. Repetitions run nothing again.",
        },
        link: { view: "inbound", id },
      };
    });

/** What refused a request, why that may be, and what to do. */
const REFUSED = {
  signature: [
    "signature",
    "The secret of this Worker is not the sender's, or the requests are forged.",
    "Compare the secret with the sender's and set it (wrangler secret put), then let the sender send them again. Forged ones need nothing.",
  ],
  clock: [
    "signed time",
    "The sender's clock is wrong, its requests arrive late, or old ones are replayed.",
    "Let the sender correct its clock and send them again, or raise tolerance if they arrive late. Replayed ones need nothing.",
  ],
} as const;

const requestsRefused: Rule = ({ refused }, now) =>
  refused
    .filter(({ count }) => count >= FEW_REFUSED)
    .map(({ source, reason, count, since }): Finding => {
      const [by, cause, text] = REFUSED[reason];
      return {
        code: "inbound-requests-refused",
        about: `${source} ${reason}`,
        severity: "warning",
        title: `${count} requests to the endpoint ${line(source)} were refused by their ${by} since ${at(since, now)}.`,
        evidence: { count, since, ids: [] },
        cause,
        fix: { text },
        link: { view: "inbound", filter: `source:${source}` },
      };
    });

const secretMissing: Rule = ({ locked }) =>
  locked.map(({ source, secrets }): Finding => {
    const names = secrets.map((name) => shownName(name) ?? "(not shown)").join(", ");
    const [first = ""] = secrets;
    return {
      code: "inbound-secret-missing",
      about: source,
      severity: "error",
      title: `The endpoint ${line(source)} answers 503 to each request: this Worker has no secret ${names}.`,
      evidence: { count: secrets.length, ids: [] },
      cause: "The secret was never set, was deleted, is empty, or has another name.",
      fix: {
        text: `Set it (wrangler secret put ${shownName(first) ?? "<its name>"}), then let the sender send them again.`,
      },
      link: { view: "inbound", filter: `source:${source}` },
    };
  });

export const INBOUND_RULES: readonly Rule[] = [
  ...failures,
  inboundDuplicates,
  requestsRefused,
  secretMissing,
];
