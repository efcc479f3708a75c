/**
 * The scripted model, of a provider that has its bad times: a script says until when it is refused, by the clock, so that
 * a kill does not make the model forget how often it has refused.
 */

import type { Script } from "../../../src/testing/script.ts";
import { isFollowUp, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import type { Effects } from "../words.ts";

/** What a prompt of the soak is, as JSON. */
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

/** Of the last message that is not Perdure's or Think's own. */
function scriptOf({ prompt }: Call): SoakScript {
  const asked = prompt
    .flatMap(({ role, content }) =>
      role === "user"
        ? [content.map((part) => (part.type === "text" ? part.text : "")).join("")]
        : [],
    )
    .findLast((text) => !isFollowUp(text));
  // What a child is asked may have words around it.
  return asked?.startsWith("{") ? (JSON.parse(asked) as SoakScript) : {};
}
