/** What can be wrong with approvals, and with steps that wait. One function for each cause. */

import type * as operated from "../../../engine/operated/part.ts";
import { at, line, plural, verb } from "../../../engine/operated/text.ts";
import type { OpenApproval, WaitFacts } from "../facts.ts";
import type { Action, FINDINGS } from "./catalog.ts";

/** A person who is at work decides sooner. */
const OLD_MS = 60_000;
/** A workflow that waits for an hour, and for half of the time that it gave, is late. */
const LATE_MS = 3_600_000;
const LATE_SHARE = 0.5;
/** Before it expires, a person needs some time; an approval with a short timeout has less. */
const SOON_MS = 3_600_000;
const SOON_SHARE = 0.25;
/** One may be a request that was not needed any more. */
const MANY_EXPIRED = 3;

type Finding = operated.Finding<keyof typeof FINDINGS, Action>;
type Rule = operated.Rule<WaitFacts, Finding>;

type Stepped = { readonly workflow: string; readonly step: string };
type Asked = Stepped & { readonly approvalId: string; readonly createdAt: number };

/** Of one step of one workflow. */
function byStep<One extends Stepped>(approvals: readonly One[]): One[][] {
  return [
    ...Map.groupBy(approvals, ({ workflow, step }) => JSON.stringify([workflow, step])).values(),
  ];
}

function isExpiring({ createdAt, expiresAt }: OpenApproval, now: number): boolean {
  const left = expiresAt - now;
  return left <= Math.min(SOON_MS, SOON_SHARE * (expiresAt - createdAt));
}

const isLate = ({ createdAt, expiresAt }: OpenApproval, now: number) =>
  now - createdAt >= Math.max(LATE_MS, LATE_SHARE * (expiresAt - createdAt));

/** The common part of findings about approvals of one step. */
function aboutStep(approvals: readonly Asked[]) {
  const count = approvals.length;
  const since = Math.min(...approvals.map(({ createdAt }) => createdAt));
  const ids = approvals.slice(0, 10).map(({ approvalId }) => approvalId);
  const { workflow = "", step = "" } = approvals[0] ?? {};
  return {
    count,
    since,
    about: `${workflow} ${step}`,
    what: `${plural(count, "approval")} of the step ${JSON.stringify(line(step))} of ${workflow}`,
    evidence: { count, since, ids },
    link: { view: "approvals", ...(ids[0] !== undefined && { id: ids[0] }) },
  };
}

const approvalWaitsLong: Rule = ({ pending }, now) =>
  byStep(pending.filter((one) => now - one.createdAt >= OLD_MS && !isExpiring(one, now))).map(
    (approvals): Finding => {
      const { count, since, about, what, evidence, link } = aboutStep(approvals);
      return {
        code: "approval-waits-long",
        about,
        severity: approvals.some((one) => isLate(one, now)) ? "warning" : "info",
        title: `${what} ${verb(count, "waits", "wait")} since ${at(since, now)}.`,
        evidence,
        cause: "No person has decided, perhaps because none was notified.",
        fix: {
          text: "Open it, and approve or reject it. Override onApproval() to notify those who decide.",
        },
        link,
      };
    },
  );

const approvalExpiresSoon: Rule = ({ pending }, now) =>
  byStep(pending.filter((one) => isExpiring(one, now))).map((approvals): Finding => {
    const { count, about, what, evidence, link } = aboutStep(approvals);
    const expiresAt = Math.min(...approvals.map((one) => one.expiresAt));
    return {
      code: "approval-expires-soon",
      about,
      severity: "warning",
      title: `${what} ${verb(count, "expires", "expire")} at ${at(expiresAt, now)}.`,
      evidence,
      cause: "No person has decided, and the step's timeout has almost passed.",
      fix: { text: "Approve or reject it now, or the step's onTimeout decides." },
      link,
    };
  });

const approvalExpired: Rule = ({ expired }, now) =>
  byStep(expired).map((approvals): Finding => {
    const { count, about, what, evidence, link } = aboutStep(approvals);
    const since = Math.min(...approvals.map(({ expiredAt }) => expiredAt));
    return {
      code: "approval-expired",
      about,
      severity: count >= MANY_EXPIRED ? "warning" : "info",
      title: `${what} expired without a decision since ${at(since, now)}.`,
      evidence: { ...evidence, since },
      cause: "The step's timeout has passed: it was rejected, or the step has failed.",
      fix: {
        text: "Override onApproval() to notify those who decide, or raise timeout. Then restart the workflows that need a decision.",
      },
      link,
    };
  });

const stepRenamed: Rule = ({ renamed }, now) => {
  const groups = Map.groupBy(renamed, ({ workflow, step, before }) =>
    JSON.stringify([workflow, step, before]),
  );
  return [...groups.values()].flatMap((waits): Finding[] => {
    const [first] = waits;
    if (!first) return [];
    const { workflow, step, before, instance } = first;
    const instances = [...new Set(waits.map((wait) => wait.instance))];
    const count = instances.length;
    const since = Math.min(...waits.map(({ createdAt }) => createdAt));
    return [
      {
        code: "workflow-step-renamed",
        about: `${workflow} ${step}`,
        severity: "warning",
        title: `${plural(count, "instance")} of ${workflow} ${verb(count, "asks", "ask")} in the step ${JSON.stringify(line(step))} since ${at(since, now)} for what the step ${JSON.stringify(line(before))} has asked before.`,
        evidence: { count, since, ids: instances.slice(0, 10) },
        cause:
          "The step was renamed while the instance was running: it finds finished steps by their names, and runs one with a new name again.",
        fix: {
          text: `Answer the new step, or deploy the version with ${JSON.stringify(line(before))} until these instances have ended and restart them.`,
        },
        link: { view: "workflows", id: instance },
      },
    ];
  });
};

export const WAIT_RULES: readonly Rule[] = [
  approvalWaitsLong,
  approvalExpiresSoon,
  approvalExpired,
  stepRenamed,
];
