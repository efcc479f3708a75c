/**
 * The scripted model of a provider with outages. A script has the time until which calls are refused, so that a kill does
 * not reset the count of refusals. It reports the tool results that it reads: the driver compares them between attempts.
 */

import { env } from "cloudflare:workers";
import { isFollowUp, type Script, ScriptedModel } from "perdure/testing";
import { type Ask, type Effects, FIRST, type Reading, type ToolName } from "../words.ts";
import { type Env, tell } from "./tell.ts";

/** The JSON of a prompt of the soak. */
export type SoakScript = Script & {
  /** Epoch milliseconds. */
  readonly refusedUntil?: number;
};

/** The script's part about tools: some text, and then the calls. */
export function calls(effects: Effects, name: ToolName): Pick<Script, "first" | "tools"> {
  if (effects.length === 0) return {};
  const tools = effects.map((keys) => keys.map((key) => ({ name, input: { key } })));
  return { first: FIRST, tools };
}

/** The text of a prompt. */
export function toPrompt(script: SoakScript): string {
  return JSON.stringify(script);
}

/** The text of a submission's message. */
export function toMessage({ text, delayMs, refusedUntil, effects, tool }: Ask): string {
  return toPrompt({ text, answer: { said: text }, delayMs, refusedUntil, ...calls(effects, tool) });
}

type Call = Parameters<ScriptedModel["doStream"]>[0];

const REFUSED = new ScriptedModel({ fail: "too many requests", status: 429 });

export class SoakModel extends ScriptedModel {
  override async doStream(call: Call) {
    const { refusedUntil = 0, ...script } = parseScript(call);
    if (Date.now() < refusedUntil) return REFUSED.doStream(call);
    const reading: Reading = { text: script.text ?? "", results: readResults(call) };
    if (reading.results.length > 0) await tell(env as Env, "readings", reading);
    return new ScriptedModel(script).doStream(call);
  }
}

/** The script of the last message that is not a follow-up of Perdure or Think. */
function parseScript({ prompt }: Call): SoakScript {
  const asked = prompt
    .flatMap((message) => (message.role === "user" ? [textOf(message)] : []))
    .findLast((text) => !isFollowUp(text));
  // The input of a child may be inside other text.
  return asked?.startsWith("{") ? (JSON.parse(asked) as SoakScript) : {};
}

/** A part of a message that is a tool call or its result. */
type ToolPart = {
  readonly type: string;
  readonly toolCallId?: string;
  readonly input?: unknown;
  readonly output?: { readonly type: string; readonly value?: unknown };
};

/** Results of the tools of this turn, in the order of their calls. */
function readResults({ prompt }: Call): Reading["results"] {
  const from = prompt.findLastIndex(
    (message) => message.role === "user" && !isFollowUp(textOf(message)),
  );
  const content = prompt
    .slice(from)
    .flatMap(({ content }) =>
      typeof content === "string" ? [] : (content as unknown as readonly ToolPart[]),
    );
  const results = new Map(
    content.flatMap(({ type, toolCallId, output }) =>
      type === "tool-result" && output !== undefined ? [[toolCallId, output] as const] : [],
    ),
  );
  return content.flatMap(({ type, toolCallId, input }) => {
    if (type !== "tool-call") return [];
    const output = results.get(toolCallId);
    const { key } = input as { key?: string };
    if (key === undefined || output === undefined) return [];
    return [[key, "value" in output ? JSON.stringify(output.value) : output.type] as const];
  });
}

function textOf({ content }: Call["prompt"][number]): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
