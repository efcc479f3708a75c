/** What can be wrong with deliveries. One function for each cause. */

import type * as operated from "../../engine/operated/part.ts";
import { at, earliestOf, line, plural, someIds, sumOf, verb } from "../../engine/operated/text.ts";
import type { Destination } from "../destinations/index.ts";
import { ALERT_PREFIX } from "../event.ts";
import type { DeliveryGroup, OutboxFacts } from "../facts.ts";
import type { Endpoint } from "../types.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** Leaves time to act before `put()` refuses events. */
const NEAR_LIMIT = 0.8;
/** Causes that a filter takes. */
const MAX_CAUSES = 20;
/** Statuses by which receivers refuse a secret. */
const REFUSED_SECRET = ["401", "403"];
/** The advice before a delivery is sent again that may have arrived. */
const MAY_REPEAT = "Sent again, they may arrive twice; the id is the same.";

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
type Rule = operated.Rule<OutboxFacts, Finding>;
type Cause =
  | "secret-refused"
  | "secret-missing"
  | "binding-missing"
  | "poison-delivery"
  | "destination-slow"
  | "destination-fails";

/** Why deliveries of this group fail, whether they wait or are dead letters. */
function causeOf({ failure, isPoison, remedy }: DeliveryGroup): Cause {
  if (remedy !== undefined) return "destination-fails";
  if (isPoison) return "poison-delivery";
  switch (failure?.code) {
    case "crashed":
      return "poison-delivery";
    case "too-late":
      return "destination-slow";
    case "secret-missing":
    case "binding-missing":
      return failure.code;
    case "answered":
      return REFUSED_SECRET.includes(failure.detail ?? "") ? "secret-refused" : "destination-fails";
    default:
      return "destination-fails";
  }
}

/** Waiting deliveries with one cause, by destination. */
function failing({ groups }: OutboxFacts, cause: Cause): DeliveryGroup[][] {
  const waiting = groups.filter(
    (group) =>
      group.state === "waiting" &&
      (group.error !== "" || group.isPoison || group.remedy !== undefined) &&
      causeOf(group) === cause,
  );
  return [...Map.groupBy(waiting, ({ key }) => key).values()];
}

/** Since when its endpoint fails, or the first of its deliveries waits. */
function sinceOf(groups: readonly DeliveryGroup[], endpoints: readonly Endpoint[]): number {
  const to = groups[0]?.destination;
  const found = endpoints.find(({ url }) => to?.kind === "webhook" && to.url === url);
  return found?.state === "failing" ? found.since : earliestOf(groups);
}

function nameOf({ destination: to, key }: DeliveryGroup): string {
  if (to === undefined) return line(key);
  switch (to.kind) {
    case "webhook":
      return URL.parse(to.url)?.host ?? "a webhook";
    case "workflow":
    case "workflow-start":
      return `Workflow ${to.workflow} ${line(to.instance)}`;
    case "queue":
      return `Queue ${to.queue}`;
    case "method":
      return `${to.method}()`;
    case "agent":
      return `${to.method}() of ${to.agent} ${line(to.name)}`;
    case "slack":
    case "discord":
      return `${to.kind} ${to.channel ?? "(response)"}`;
    case "telegram":
      return `telegram ${to.chat}`;
    case "github-comment":
      return `github ${to.repository}#${to.issue}`;
    case "email":
      return `email ${line(String(to.to))}`;
    case "otlp":
      return `the collector ${URL.parse(to.url)?.host}`;
    default:
      return line(key);
  }
}

/** Names of the secrets in `env` that sign or authorize its requests. */
function secretsOf(to: Destination | undefined): readonly string[] {
  if (to === undefined) return [];
  if (to.kind === "webhook") return to.secrets ?? [];
  if ("token" in to && typeof to.token === "string") return [to.token];
  // OTLP names one secret that has all headers.
  return "headers" in to && typeof to.headers === "string" ? [to.headers] : [];
}

/** The error in the title: its status if there is one. */
function reasonOf({ failure, error }: DeliveryGroup): string {
  const status = failure?.code === "answered" ? failure.detail : undefined;
  return status ?? `"${line(error)}"`;
}

/** Attempts all of these again now: those of a failing URL, or of another destination with these causes. */
function tryNow(groups: readonly DeliveryGroup[], { endpoints }: OutboxFacts): { action?: Action } {
  const [first] = groups;
  const to = first?.destination;
  const isFailing = ({ url, state }: Endpoint) =>
    to?.kind === "webhook" && to.url === url && state === "failing";
  const endpoint = endpoints.find(isFailing);
  if (endpoint) return { action: { do: "enable-endpoint", url: endpoint.url } };
  const deliveryId = first?.ids[0];
  if (deliveryId === undefined) return {};
  if (sumOf(groups) === 1) return { action: { do: "redrive", deliveryId } };
  const cause = [...new Set(groups.map((group) => group.cause))];
  // Without a filter, or with more causes than it takes, it is a decision for each.
  if (to === undefined || !canBeFiltered(to) || cause.length > MAX_CAUSES) return {};
  return { action: { do: "redrive", filter: { state: "waiting", destination: to, cause } } };
}

/** A finding about deliveries of one destination. */
function about(
  groups: readonly DeliveryGroup[],
  since: number,
  found: Omit<Finding, "evidence">,
): Finding {
  const lastError = groups[0]?.error ?? "";
  return { ...found, evidence: { count: sumOf(groups), since, ids: someIds(groups), lastError } };
}

const linkTo = (view: string, { ids: [id] }: DeliveryGroup) => ({
  view,
  ...(id !== undefined && { id }),
});

/** By the cause of deliveries that wait: what is likely, and what to do. */
const FAILING: {
  readonly [Code in Exclude<Cause, "poison-delivery">]: (first: DeliveryGroup) => {
    readonly cause: string;
    readonly fix: string;
  };
} = {
  "destination-slow": ({ error }) => ({
    cause: `The receiver may have got each attempt, and answers too late or not at all: ${line(error)}`,
    fix: `Let the receiver answer before it works, or raise the timeout of the policy. ${MAY_REPEAT}`,
  }),
  "destination-fails": ({ remedy }) =>
    remedy === undefined
      ? {
          cause: "The receiver is down or fails; the evidence has its answer.",
          fix: "First repair the receiver, then send again now. They are also retried, by default for three days.",
        }
      : {
          cause: "The class installs nothing that sends to it.",
          fix: `${remedy}, and deploy.`,
        },
  "secret-refused": ({ destination }) => {
    const names = secretsOf(destination);
    const named = names.length === 0 ? "its secret" : `the secret ${names.join(", ")}`;
    const command = names.map((name) => `wrangler secret put ${name}`).join(", ");
    return {
      cause: `The receiver does not accept ${named}: it has another value there, or was revoked.`,
      fix: `First set ${named} to the receiver's value${command && ` (${command})`}, then send again now.`,
    };
  },
  "secret-missing": ({ failure: { detail: name = "" } = {} }) => ({
    cause: `This Worker has no usable secret ${name}, which signs or authorizes the request.`,
    fix: `First set it (wrangler secret put ${name}), then send again now.`,
  }),
  "binding-missing": () => ({
    cause: "The Wrangler configuration of the deployed Worker does not have the binding.",
    fix: "First add the binding and deploy, then send again now.",
  }),
};

/** One failed attempt is often the network, and the next one a second later succeeds. */
const AFTER_ATTEMPTS: { readonly [Code in Cause]?: number } = {
  "destination-slow": 3,
  "destination-fails": 3,
};

const FAILING_RULES = (Object.keys(FAILING) as (keyof typeof FAILING)[]).map(
  (code): Rule =>
    (facts, now) =>
      failing(facts, code).flatMap((groups) => {
        const [first] = groups;
        const isUninstalled = first?.remedy !== undefined;
        const least = isUninstalled ? 0 : (AFTER_ATTEMPTS[code] ?? 0);
        if (!first || !groups.some(({ attempts }) => attempts >= least)) return [];
        const { cause, fix } = FAILING[code](first);
        const count = sumOf(groups);
        const since = sinceOf(groups, facts.endpoints);
        const time = `since ${at(since, now)}`;
        const what = isUninstalled
          ? `${verb(count, "waits", "wait")} ${time}: ${first.destination?.kind} is not installed`
          : code === "destination-slow"
            ? `${verb(count, "has", "have")} had no answer in time ${time}`
            : `${verb(count, "fails", "fail")} ${time} with ${reasonOf(first)}`;
        return about(groups, since, {
          code,
          about: first.key,
          severity: "error",
          title: `${plural(count, "delivery", "deliveries")} to ${nameOf(first)} ${what}.`,
          cause,
          fix: { text: fix, ...(!isUninstalled && tryNow(groups, facts)) },
          link: linkTo("deliveries", first),
        });
      }),
);

const poisonDelivery: Rule = (facts, now) =>
  failing(facts, "poison-delivery").map((groups) => {
    const [first] = groups as [DeliveryGroup];
    const since = earliestOf(groups);
    return about(groups, since, {
      code: "poison-delivery",
      about: first.key,
      severity: "error",
      title: `The agent crashed during each of the latest attempts of ${plural(sumOf(groups), "delivery", "deliveries")} to ${nameOf(first)}, put since ${at(since, now)}.`,
      cause: "The receiving method, or the size of the event, crashes the agent.",
      fix: {
        text: "Correct the receiving method and deploy. After eight crashes it becomes a dead letter, which you can delete.",
      },
      link: linkTo("deliveries", first),
    });
  });

const endpointDisabled: Rule = ({ endpoints, gone, groups }, now) =>
  endpoints.flatMap((endpoint): Finding[] => {
    if (endpoint.state !== "disabled") return [];
    const { url, since, reason } = endpoint;
    const isGone = gone.includes(url);
    const letters = groups.filter(
      ({ destination: to, state }) => state === "dead" && to?.kind === "webhook" && to.url === url,
    );
    const dead = sumOf(letters);
    const host = URL.parse(url)?.host ?? "a webhook";
    return [
      {
        code: "endpoint-disabled",
        about: url,
        severity: isGone ? "error" : "info",
        title: `The endpoint ${host} is disabled since ${at(since, now)}, and ${plural(dead, "delivery is a dead letter", "deliveries are dead letters")}.`,
        evidence: { count: dead, since, ids: someIds(letters), lastError: reason },
        cause: isGone
          ? "It answered 410: it wants no more events."
          : `A call has disabled it: ${line(reason)}`,
        fix: {
          text: "If it is to receive events again, enable it: all its dead letters since it began to fail are sent then.",
          action: { do: "enable-endpoint", url },
        },
        link: { view: "endpoints", id: url },
      },
    ];
  });

/** Kinds whose stored form has a secret that no list shows, so that no filter can name them. */
function canBeFiltered(to: Destination): boolean {
  return !("responseUrl" in to && to.responseUrl) && !("interaction" in to && to.interaction);
}

function deadLettersOf({ groups, endpoints }: OutboxFacts, isUncertain: boolean) {
  const disabled = new Set(
    endpoints.filter(({ state }) => state === "disabled").map(({ url }) => url),
  );
  const dead = groups.filter(
    ({ state, isUncertain: is, destination: to }) =>
      // Dead letters of a disabled endpoint are part of its finding.
      state === "dead" && is === isUncertain && !(to?.kind === "webhook" && disabled.has(to.url)),
  );
  return [...Map.groupBy(dead, (one) => `${one.key}\n${one.cause}`).values()];
}

const CAUSES: Readonly<Record<Cause, string>> = {
  "secret-refused": "The receiver does not accept the secret",
  "secret-missing": "This Worker has no usable secret for it",
  "binding-missing": "The deployed Worker does not have the binding",
  "poison-delivery": "The agent crashed in each attempt",
  "destination-slow": "The receiver answered too late, and may have got each attempt",
  "destination-fails": "The receiver refused the event, or failed for too long",
};

const deadLetters: Rule = (facts, now) =>
  deadLettersOf(facts, false).map((groups): Finding => {
    const [first] = groups as [DeliveryGroup];
    const count = sumOf(groups);
    const since = earliestOf(groups);
    const cause = causeOf(first);
    const [deliveryId = ""] = first.ids;
    const to = first.destination;
    const names = cause.startsWith("secret") ? secretsOf(to).join(", ") : "";
    const action: Action | false =
      count === 1
        ? { do: "redrive", deliveryId }
        : to !== undefined &&
          canBeFiltered(to) && {
            do: "redrive",
            filter: { destination: to, since, cause: first.cause },
          };
    return about(groups, since, {
      code: cause === "poison-delivery" ? "poison-delivery" : "dead-letters",
      about: `${first.key} ${first.cause}`,
      severity: "error",
      title: `${plural(count, "delivery", "deliveries")} to ${nameOf(first)} ${verb(count, "is a dead letter", "are dead letters")} since ${at(since, now)}: ${line(first.error)}`,
      cause: `${CAUSES[cause]}${names && `: ${names}`}; they are not attempted any more.`,
      fix: {
        text: `First correct what the error names, then send ${
          action ? "them" : "each"
        } again; delete what is not needed.${cause === "destination-slow" ? ` ${MAY_REPEAT}` : ""}`,
        ...(action && { action }),
      },
      link: { view: "dead-letters", id: deliveryId },
    });
  });

const uncertainDeadLetters: Rule = (facts, now) =>
  deadLettersOf(facts, true).map((groups): Finding => {
    const [first] = groups as [DeliveryGroup];
    const count = sumOf(groups);
    const since = earliestOf(groups);
    // Alerts say how the agent was. Whether one arrived days ago is nothing that a person has to find out.
    const areAlerts = groups.every(({ ids }) => ids.every((id) => id.startsWith(ALERT_PREFIX)));
    return about(groups, since, {
      code: "uncertain-dead-letters",
      about: `${first.key} ${first.cause}`,
      severity: areAlerts ? "info" : "error",
      title: `${plural(count, "delivery", "deliveries")} to ${nameOf(first)} may have arrived, and ${verb(count, "is a dead letter", "are dead letters")} since ${at(since, now)}.`,
      cause: "An attempt had no known outcome, and the receiver would not recognize a repetition.",
      fix: {
        text: "Look at the receiver: delete what has arrived, and redrive what has not, one by one.",
      },
      link: linkTo("dead-letters", first),
    });
  });

const outboxNearLimit: Rule = ({ waiting, maxWaiting, groups }, now) => {
  if (waiting < NEAR_LIMIT * maxWaiting) return [];
  const isFull = waiting >= maxWaiting;
  const all = groups.filter(({ state }) => state === "waiting");
  const [largest] = all.toSorted((one, other) => other.count - one.count);
  const since = earliestOf(all);
  // One that takes its deliveries is not to be disabled.
  const isFailing = all.some(({ key, error }) => key === largest?.key && error !== "");
  return [
    {
      code: "outbox-near-limit",
      severity: isFull ? "error" : "warning",
      title: `${waiting} deliveries wait, the first since ${at(since, now)}, and at most ${maxWaiting} may.`,
      evidence: { count: waiting, since, ids: someIds(all) },
      cause: largest
        ? `Most of them, ${largest.count}, are for ${nameOf(largest)}. At the limit, put() throws OutboxFullError.`
        : "At the limit, put() throws OutboxFullError.",
      fix: {
        text: "Repair or disable the destination that does not take them, or raise maxWaiting.",
        ...(isFailing &&
          largest?.destination?.kind === "webhook" && {
            action: { do: "disable-endpoint", url: largest.destination.url } as const,
          }),
      },
      link: { view: "deliveries", filter: "state:waiting" },
    },
  ];
};

export const OUTBOX_RULES: readonly Rule[] = [
  ...FAILING_RULES,
  poisonDelivery,
  endpointDisabled,
  deadLetters,
  uncertainDeadLetters,
  outboxNearLimit,
];
