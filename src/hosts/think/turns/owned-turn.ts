/** A turn of Think that runs an attempt of a submission: its settings, and how it ended in terms of the ledger. */

import type { Think, TurnConfig, TurnContext } from "@cloudflare/think";
import type { TurnEnd } from "../../../kernel/submissions/internal.ts";
import { textOf } from "../../sdk/answer-text.ts";
import { type ChatEnd, type OwnedTurn as ChatTurn, factsOf } from "../../sdk/recovered-turns.ts";
import { recordedOf } from "../../sdk/tools.ts";

export type OwnedTurn = ChatTurn & {
  /** The tool inputs of the model, by the ids of its calls. */
  readonly inputs: Map<string, unknown>;
  /** The reply of an earlier attempt that it continues, and how many parts that had. */
  earlier?: { readonly id: string; readonly parts: number };
};

/** The app's settings of a turn, with recorded tools and with what the attempt asks for. */
export function configOf(
  owned: OwnedTurn,
  agent: Pick<Think, "maxSteps" | "messages">,
  ctx: TurnContext,
  config: TurnConfig,
): Promise<TurnConfig> {
  const { attempt, inputs } = owned;
  const { plan, calls } = attempt;
  const all = { ...ctx.tools, ...config.tools };
  const inputOf = (id: string, input: unknown) => {
    const given = inputs.has(id) ? inputs.get(id) : input;
    inputs.delete(id);
    return given;
  };
  const tools = recordedOf(all, calls, { inputOf });
  const last = attempt.isFollowUp ? agent.messages.at(-1) : undefined;
  if (last?.role === "assistant") owned.earlier = { id: last.id, parts: last.parts.length };
  const model = plan?.model ?? config.model;
  const settings = { ...config, tools, ...(model !== undefined && { model }) };
  const { maxSteps = agent.maxSteps } = config;
  return attempt.settings(ctx, settings, { tools: all, maxSteps });
}

/** How a turn ended, with its answer taken from the reply if one was asked for. */
export function endOf(owned: OwnedTurn | undefined, ended: ChatEnd): TurnEnd {
  const { message } = ended;
  if (!owned) return factsOf(ended, undefined);
  const { attempt, earlier } = owned;
  const from = message && message.id === earlier?.id ? earlier.parts : 0;
  const end = attempt.isUnanswered ? { ...ended, status: "completed" as const } : ended;
  return attempt.end(factsOf(end, attempt.error?.cause), textOf(message, from));
}
