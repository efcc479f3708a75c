/** What can be wrong with arrivals. One function for each cause. */

import type * as operated from "../../core/operated/part.ts";
import { at, line, plural, verb } from "../../core/operated/text.ts";
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
type Rule = operated.Rule<InboundFacts, Finding>;

const isPoison = ({ acceptedSince }: FailedArrival) => acceptedSince >= POISON_AFTER;

/** By source, verdict and cause: the newest of each, what is known of all, and what replays them. */
function groupsOf(failed: readonly FailedArrival[], now: number) {
  const recent = failed.filter(({ storedAt }) => now - storedAt < WINDOW_MS);
  const groups = Map.groupBy(recent, (one) => `${one.source}\n${one.verdict}\n${one.cause}`);
  return [...groups.values()].map((some) => {
    const [first] = some as [FailedArrival];
    const { source, id, cause, verdict, storedAt } = first;
    const since = Math.min(...some.map(({ storedAt }) => storedAt));
    const filter = { source, verdict, since, until: storedAt + 1, cause };
    const target = some.length === 1 ? { source, id } : { filter };
    return {
      first,
      about: `${source} ${cause}`,
      evidence: {
        count: some.length,
        since,
        ids: some.slice(0, 10).map(({ id }) => `${source}/${id}`),
        lastError: first.error.message,
      },
      action: { do: "replay", ...target } as Action,
    };
  });
}

const inboundRefused: Rule = ({ failed }, now) => {
  const some = failed.filter((one) => one.verdict === "refused" && !isPoison(one));
  return groupsOf(some, now).map(({ first, about, evidence, action }): Finding => {
    const { count, since } = evidence;
    const { source, error } = first;
    return {
      code: "inbound-refused",
      about,
      severity: "error",
      title: `${plural(count, "arrival", "arrivals")} of ${line(source)} ${verb(count, "was", "were")} refused since ${at(since, now)} with ${line(error.name)}.`,
      evidence,
      cause: `The handler of the source, or the method that it calls, has failed: ${line(error.message)}`,
      fix: {
        text: "First correct it and deploy, then replay them; their senders may also send them again.",
        action,
      },
      link: { view: "inbound", filter: `source:${source} verdict:refused` },
    };
  });
};

const inboundUnfinished: Rule = ({ failed }, now) => {
  const some = failed.filter(
    (one) => one.verdict !== "refused" && !isPoison(one) && now - one.storedAt >= UNFINISHED_MS,
  );
  return groupsOf(some, now).map(({ first, about, evidence, action }): Finding => {
    const { count, since } = evidence;
    const { source, error } = first;
    return {
      code: "inbound-unfinished",
      about,
      severity: "error",
      title: `The handler of ${plural(count, "arrival", "arrivals")} of ${line(source)} has not ended since ${at(since, now)}.`,
      evidence,
      cause: `Some of its calls are done, and a later one has failed or was interrupted: ${line(error.message)}`,
      fix: {
        text: "First correct what the error names, then replay them: the calls that are done are not run again.",
        action,
      },
      link: { view: "inbound", filter: `source:${source}` },
    };
  });
};

const inboundPoison: Rule = ({ failed }, now) => {
  const some = failed.filter(isPoison);
  return groupsOf(some, now).map(({ first, about, evidence, action }): Finding => {
    const { count, since } = evidence;
    const { source, id, error, acceptedSince } = first;
    return {
      code: "inbound-poison",
      about,
      severity: "error",
      title: `${plural(count, "arrival", "arrivals")} of ${line(source)} ${verb(count, "fails", "fail")} since ${at(since, now)} with ${line(error.name)}, while ${acceptedSince} later ones were accepted.`,
      evidence,
      cause: `The handler cannot process their content: ${line(error.message)}`,
      fix: {
        text: "First look at the body of one, correct the handler and deploy, then replay them.",
        action,
      },
      link: { view: "inbound", id: `${source}/${id}` },
    };
  });
};

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
        title: `${plural(arrivals, "arrival", "arrivals")} of ${line(source)} ${verb(arrivals, "was", "were")} sent again ${count} times since ${at(most.storedAt, now)}.`,
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

export const INBOUND_RULES: readonly Rule[] = [
  inboundRefused,
  inboundUnfinished,
  inboundPoison,
  inboundDuplicates,
  requestsRefused,
];
