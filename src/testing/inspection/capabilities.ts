/** Finds the public verbs of an object: those of a host, and those of capabilities that are properties of the object. */

import type { Inbound } from "../../features/inbound/inbound.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { Scheduler } from "../../scheduler/scheduler.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import { CAPABILITY_VERBS, type CapabilityName } from "../../workflow/agent/capabilities.ts";
import type { Approvals } from "../../workflow/waits/kinds/approval.ts";

/** The verbs that an inspection calls. Undefined where the object does not have them. */
type InspectedVerbs = {
  readonly list: SubmissionVerbs["list"] | undefined;
  readonly outbox: Pick<Outbox, "listDeliveries" | "listEndpoints"> | undefined;
  readonly approvals: Pick<Approvals, "list"> | undefined;
  readonly schedules: Pick<Scheduler, "list" | "runs"> | undefined;
  readonly inbound: Pick<Inbound, "list"> | undefined;
};

type SubmissionVerbs = {
  list(options: { limit: number; before?: string }): Promise<SubmissionInspection[]>;
};
type HostVerbs = { listSubmissions: SubmissionVerbs["list"] };

/** Verbs by which a bare `new Submissions()` is recognized. */
const SUBMISSION_VERBS = ["list", "inspect", "submitMany", "retry", "cancel"];

/** @param object a host, the object of `durable()`, or one with capabilities as properties */
export function findVerbs(object: object): InspectedVerbs {
  const parts = Object.values(object).filter((part) => typeof part === "object" && part !== null);
  // The class of `durable()` has the verbs too, but not the capabilities.
  const host = [object, ...parts].find((part): part is HostVerbs =>
    hasMembers(part, ["listSubmissions", "outbox"]),
  );
  const submissions = parts.find((part): part is SubmissionVerbs =>
    hasMembers(part, SUBMISSION_VERBS),
  );
  const find = <Verbs>(name: CapabilityName) =>
    (host
      ? readFeature(host, name)
      : parts.find((part) => hasMembers(part, CAPABILITY_VERBS[name]))) as Verbs | undefined;
  return {
    list: host ? host.listSubmissions.bind(host) : submissions?.list.bind(submissions),
    outbox: find("outbox"),
    approvals: find("approvals"),
    schedules: find("schedules"),
    inbound: find("inbound"),
  };
}

function hasMembers(part: object, members: readonly string[]): boolean {
  return members.every((member) => hasMember(part, member));
}

/** Reads no property: a stub answers to every name. */
function hasMember(part: object | null, member: string): boolean {
  if (part === null) return false;
  return Object.hasOwn(part, member) || hasMember(Object.getPrototypeOf(part) as object, member);
}

/** A capability of a host; undefined where its feature is not installed. */
function readFeature(host: object, name: CapabilityName): object | undefined {
  try {
    return Reflect.get(host, name) as object;
  } catch (error) {
    if ((error as Error).name === "FeatureNotInstalledError") return undefined;
    throw error;
  }
}
