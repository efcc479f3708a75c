/** The problems of a replay, in words: what happens after the deploy, and what to do. Pure. */

import { preview } from "../../core/json.ts";
import type { ReplayProblem } from "../../features/deploy/types.ts";
import type { Unit } from "./units.ts";

const KEEP =
  "Keep the name, or let runs that began before the deploy keep the old code: static version and versions().";
const CHANGE =
  "Make the change only for runs that begin after it, by step.version(), or keep the old code for older runs: static version and versions().";

/** What is lost of an open step that nothing asks for, by its kind. */
const LOST: Readonly<Record<string, string>> = {
  approval: "its approval stays open and decides nothing",
  prompt: "the answer of its turn is lost",
  batch: "the answers of its turns are lost",
  webhook: "what arrives for it is lost",
  event: "its event is lost",
  "agent-tool": "the result of its child agent is lost",
  codemode: "the result of its code is lost",
};

export function gone(unit: Unit, instead: readonly Unit[]): ReplayProblem {
  const { name: step, kind } = unit;
  const isOpen = unit.recorded.some(({ status }) => status === "open");
  const names = instead
    .slice(0, 3)
    .map((one) => (one.name === step ? `it with another key` : preview(one.name)));
  const asks = names.length > 0 ? ` and asks for ${names.join(", ")} instead` : "";
  const says = (then: string) =>
    `The run has ${isOpen ? "an open" : "made a"} step ${preview(step)} (${kind}), and the new code no longer asks for it${asks}: ${then}.`;
  const problem = "renamed-or-removed";
  const lost = isOpen ? LOST[kind] : undefined;
  if (lost !== undefined) {
    return { step, problem, severity: "error", text: says(lost), remedy: KEEP };
  }
  if (kind === "sleep") {
    return {
      step,
      problem,
      severity: "warning",
      text: says("it sleeps again, from the start"),
      remedy: KEEP,
    };
  }
  if (names.length === 0) {
    const text = says("what it has done stays, and its result is not used");
    return { step, problem, severity: "warning", text, remedy: CHANGE };
  }
  const then = isOpen
    ? "it may have done a part of its work, and does it again under the new name"
    : "its work is done again under the new name";
  return { step, problem, severity: isOpen ? "warning" : "error", text: says(then), remedy: KEEP };
}

export function inserted({ name: step, kind }: Unit): ReplayProblem {
  const text = `The step ${preview(step)} (${kind}) is new, and comes before steps that the run has already made: it runs now, after them.`;
  return { step, problem: "inserted", severity: "warning", text, remedy: CHANGE };
}

export function reordered(step: string, before: string): ReplayProblem {
  const text = `The run has made the step ${preview(step)} before ${preview(before)}, and the new code asks for it later: results are found by name, so nothing runs again.`;
  const remedy = `Check that neither step needs what the other one has done. ${CHANGE}`;
  return { step, problem: "reordered", severity: "warning", text, remedy };
}

export function kindChanged(step: string, old: Unit, now: string): ReplayProblem {
  const isOpen = old.recorded.some(({ status }) => status === "open");
  const then = (isOpen && LOST[old.kind]) || "its result is not found, and the new step runs";
  const text = `The step ${preview(step)} was of the kind ${old.kind}, and is of the kind ${now} now: ${then}.`;
  const remedy = `Give the new step another name, and keep the old code for older runs: static version and versions().`;
  return { step, problem: "kind-changed", severity: "error", text, remedy };
}

export function refused(step: string, kind: string): ReplayProblem {
  const what =
    kind === "approval" ? "a person is asked again" : "it is asked for again, or the step fails";
  const text = `The new schema of the step ${preview(step)} refuses the ${kind === "approval" ? "decision" : "answer"} that the run has: ${what}. What comes after it was not checked.`;
  const remedy = `Let the schema take what the old one took, e.g. by a default. ${KEEP}`;
  return { step, problem: "answer-refused", severity: "error", text, remedy };
}

export function changed(step: string, severity: "error" | "warning", what: string): ReplayProblem {
  const text = `The request of the step ${preview(step)} has changed: ${what}.`;
  const remedy =
    severity === "error"
      ? `Make the schema wider only, e.g. with optional properties. ${KEEP}`
      : CHANGE;
  return { step, problem: "request-changed", severity, text, remedy };
}

export function wouldFail(message: string): ReplayProblem {
  const text = `run() of the new code throws, where the run has not ended: ${message}`;
  const remedy = `Correct the code, or keep the old code for older runs: static version and versions().`;
  return { step: "run()", problem: "would-fail", severity: "error", text, remedy };
}

export function unknownVersion(message: string): ReplayProblem {
  const remedy = "Add the class of this version to versions(), or migrate the run.";
  return {
    step: "perdure:version",
    problem: "unknown-version",
    severity: "error",
    text: message,
    remedy,
  };
}

export function notCompared(what: string): ReplayProblem {
  const text = `The run goes on with a made-up value of ${what}, which no history has: what the new code decides by it was not compared.`;
  const remedy = `Check by hand that the new code decides as the old one. ${KEEP}`;
  return { step: "run()", problem: "not-replayed", severity: "warning", text, remedy };
}

export function notReplayed(step: string, why: string): ReplayProblem {
  const text = `The run was not replayed from ${step === "run()" ? step : `the step ${preview(step)}`} on: ${why}.`;
  const remedy =
    "Check the rest of its code by hand, or keep the old code for older runs: static version and versions().";
  return { step, problem: "not-replayed", severity: "warning", text, remedy };
}
