/**
 * The scripted model of a provider with outages. A script has the time until which calls are refused, so that a kill does
 * not reset the count of refusals.
 */

import type { Script } from "../../../src/testing/script.ts";
import { isFollowUp, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import type { Effects } from "../words.ts";

/** The JSON of a prompt of the soak. */
export type SoakScript = Script & {
  /** Epoch milliseconds. */
  readonly refusedUntil?: number;
};

/** The script's part about tools: some text, and then the calls. */
export function calls(effects: Effects, name: string): Pick<Script, "first" | "tools"> {
  if (effects.length === 0) return {};
  const tools = effects.map((keys) => keys.map((key) => ({ name, input: { key } })));
  return { first: "I begin. ", tools };
}

/** The text of a prompt. */
export function soakAsk(script: SoakScript): string {
  return JSON.stringify(script);
}

type Call = Parameters<ScriptedModel["doStream"]>[0];

const REFUSED = new ScriptedModel({ fail: "too many requests", status: 429 });

export class SoakModel extends ScriptedModel {
  override doStream(call: Call) {
    const { refusedUntil = 0, ...script } = scriptOf(call);
    return (Date.now() < refusedUntil ? REFUSED : new ScriptedModel(script)).doStream(call);
  }
}

/** The script of the last message that is not a follow-up of Perdure or Think. */
function scriptOf({ prompt }: Call): SoakScript {
  const asked = prompt
    .flatMap(({ role, content }) =>
      role === "user"
        ? [content.map((part) => (part.type === "text" ? part.text : "")).join("")]
        : [],
    )
    .findLast((text) => !isFollowUp(text));
  // The input of a child may be inside other text.
  return asked?.startsWith("{") ? (JSON.parse(asked) as SoakScript) : {};
}
