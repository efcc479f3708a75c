/** Steps as the app names them: a step of Perdure consists of several of the platform. Pure. */

import type { PlatformStep } from "../../features/deploy/types.ts";
import { idOf, type Recorded } from "./record.ts";
import type { Ask } from "./step.ts";

/** A step as the app has written it. */
export type Unit = {
  readonly id: string;
  readonly name: string;
  /** `do`, `sleep`, `event`, or the kind of a step of Perdure: `prompt`, `batch`, `approval`, ... */
  readonly kind: string;
  /** Those of the history that it consists of, and those that the code asks for and the history does not have. */
  readonly recorded: PlatformStep[];
  readonly fresh: Ask[];
  /** Whether the code has asked for any recorded part of it. */
  isAsked: boolean;
};

const PART = /^(.*):(?:(approval|agent-tool|webhook|codemode)-)?([a-z]+(?:-[\w-]+)?)$/s;
const SUBMIT = /submit(-\d+)?$/;
/** The parts of `sleepUntilNext()`. */
const SLEEP = /^(.*?)(?:~[\w-]+)?:sleep-(?:next|hop-\d+)$/s;
/** Steps that Perdure makes for itself. */
const INTERNAL = /^perdure:|^__agent_/;

type Owner = Pick<Unit, "id" | "name" | "kind">;

/** The steps of a replay, in the order of the history, then in that of the code. */
export function unitsOf(record: Recorded, asks: readonly Ask[]): Unit[] {
  const owners = ownersOf(record, asks);
  const units = new Map<string, Unit>();
  const unitOf = (step: Pick<PlatformStep, "kind" | "name" | "count">): Unit => {
    const owner = owners.get(prefixOf(step.name)) ??
      sleepOf(step.name) ?? { ...step, id: idOf(step) };
    const { id, name, kind } = owner;
    const unit = units.get(id) ?? { id, name, kind, recorded: [], fresh: [], isAsked: false };
    units.set(id, unit);
    return unit;
  };
  for (const step of record.history.platform) {
    if (!INTERNAL.test(step.name)) unitOf(step).recorded.push(step);
  }
  for (const ask of asks) {
    if (INTERNAL.test(ask.name)) continue;
    const unit = unitOf(ask);
    if (ask.recorded) unit.isAsked = true;
    else unit.fresh.push(ask);
  }
  return [...units.values()];
}

/** What has asked the agent, by the common beginning of the names of its parts. */
function ownersOf(record: Recorded, asks: readonly Ask[]): ReadonlyMap<string, Owner> {
  const owners = new Map<string, Owner>();
  const add = (part: string, name: string, kind: string) => {
    const prefix = prefixOf(part);
    // The repairs of a batch are a batch of their own.
    const id = kind === "batch" ? `batch ${name}` : `${kind} ${prefix}`;
    owners.set(prefix, { id, name, kind });
  };
  for (const { name, output } of record.history.platform) {
    if (!SUBMIT.test(name)) continue;
    const { waitId, submissionIds } = Object(output) as {
      waitId?: unknown;
      submissionIds?: unknown;
    };
    const asked = record.asked(Array.isArray(submissionIds) ? submissionIds[0] : waitId);
    if (asked) add(name, asked.step, asked.kind);
  }
  for (const { name, calls } of asks) {
    if (calls?.opened) add(name, calls.opened.workflow.stepName, calls.opened.kind);
  }
  return owners;
}

function sleepOf(part: string): Owner | undefined {
  const name = SLEEP.exec(part)?.[1];
  return name === undefined
    ? undefined
    : { id: `sleep ${part.replace(/-[^-:]*(-\d+)?$/, "")}`, name, kind: "sleep" };
}

function prefixOf(name: string): string {
  const [, start = name, kind = ""] = PART.exec(name) ?? [];
  return `${start}|${kind}`;
}
