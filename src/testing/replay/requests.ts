/** Compares what a step asks of its agent with what it asked before the deploy. Pure. */

import { stableJson } from "../../core/json.ts";
import type { AskedStep } from "../../features/deploy/types.ts";
import { narrowedIn } from "./schemas.ts";

/** What differs between two requests of a step, and matters to a run that has made the old one. */
export type Change = {
  readonly severity: "error" | "warning";
  readonly text: string;
};

type Request = Readonly<Record<string, unknown>>;

/** The schema of what a step waits for: that of the agent's own check, where there is another. */
function schemaIn(request: Request): unknown {
  const { schema, check } = (request.answer ?? request) as Request;
  return check ?? schema ?? null;
}

export function isSameSchema({ request }: AskedStep, now: unknown): boolean {
  return stableJson(schemaIn(Object(request))) === stableJson(schemaIn(Object(now)));
}

export function changesIn(asked: AskedStep, now: unknown): Change[] {
  const old = Object(asked.request) as Request;
  const request = Object(now) as Request;
  const isOpen = asked.end === undefined;
  const isPrompt = asked.kind === "prompt" || asked.kind === "batch";
  return [
    ...(isOpen ? schemaChanges(old, request, isPrompt) : []),
    ...(isPrompt ? threadChange(old, request, asked.kind, isOpen) : []),
    ...(isOpen ? optionChanges(old, request, asked.kind) : []),
  ];
}

function schemaChanges(old: Request, now: Request, isPrompt: boolean): Change[] {
  const [was, is] = [schemaIn(old), schemaIn(now)];
  if (is === null && was !== null && isPrompt) {
    const text =
      "it has no schema any more, so the stored answer would come as a text of an object";
    return [{ severity: "warning", text }];
  }
  const narrowed = narrowedIn(was, is);
  if (narrowed.length === 0) return [];
  const what = narrowed.slice(0, 3).join("; ");
  const text = `its new schema may refuse what was asked for with the old one: ${what}`;
  return [{ severity: "error", text }];
}

function threadChange(old: Request, now: Request, kind: string, isOpen: boolean): Change[] {
  const usual = kind === "batch" ? "isolated" : "main";
  const [was, is] = [old.thread ?? usual, now.thread ?? usual];
  if (was === is) return [];
  const stays = isOpen ? "its turn goes on in" : "its messages are in";
  const text = `${stays} the thread ${JSON.stringify(was)}, and later turns that are in ${JSON.stringify(is)} do not see them`;
  return [{ severity: "warning", text }];
}

/** Options that the agent has stored with the request. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  prompt: ["strategy", "repair", "models", "maxSteps"],
  batch: ["strategy", "repair", "models", "maxSteps"],
  approval: ["data"],
  webhook: ["from", "types", "match", "url"],
  "agent-tool": ["className"],
  codemode: ["code", "onReject"],
};

function optionChanges(old: Request, now: Request, kind: string): Change[] {
  const [was, is] = [old, now].map((request) => Object(request.answer ?? request) as Request);
  const changed = (OPTIONS[kind] ?? []).filter(
    (name) => stableJson(was?.[name]) !== stableJson(is?.[name]),
  );
  if (changed.length === 0) return [];
  const text = `it was accepted with other values of ${changed.join(", ")}, and goes on with them`;
  return [{ severity: "warning", text }];
}
