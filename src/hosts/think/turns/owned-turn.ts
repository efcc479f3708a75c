/**
 * A turn of Think that belongs to a submission: what is known of it while it
 * lives, what it asks, and how it ends. It stores nothing.
 */

import type {
  PrepareStepContext,
  StepContext,
  ToolCallContext,
  TurnConfig,
  TurnContext,
} from "@cloudflare/think";
import type { UIMessage } from "ai";
import { failureOf } from "../../../core/failures.ts";
import {
  type AttemptPlan,
  type AttemptRef,
  endWithAnswer,
  type ToolCalls,
  type TurnEnd,
} from "../../../submissions/index.ts";
import { textOf } from "../../sdk/answer-text.ts";
import { Answering, type RecordAnswer } from "../../sdk/answering.ts";
import { askedInStep, askedSettings } from "../../sdk/asked-settings.ts";
import { finalAnswerName, isToolChoiceViolation } from "../../sdk/final-answer.ts";
import { finishReasonOf } from "../../sdk/finish-reason.ts";
import { noted, recordedOf } from "../../sdk/recorded-tools.ts";
import { isProviderResult } from "../../sdk/reply.ts";
import type { StepOverrides } from "../hooks.ts";
import { isKept } from "./conversation.ts";

/** How a turn ended, in the words of Think. */
export type ThinkEnd = {
  readonly requestId: string;
  readonly status: "completed" | "error" | "aborted" | "skipped";
  readonly error?: string | undefined;
  readonly message: UIMessage | undefined;
};

/** What an owned turn is made of. */
export type OwnedParts = {
  readonly ref: AttemptRef;
  readonly plan: AttemptPlan | undefined;
  readonly record: RecordAnswer;
  /** Where the ledger records its calls of tools. */
  readonly calls: ToolCalls;
  /** Whether an earlier life has recorded an answer. */
  readonly isAnswered: boolean;
  /** Whether Think's recovery runs it. */
  readonly isRecovered: boolean;
};

export class OwnedTurn {
  readonly ref: AttemptRef;
  readonly isRecovered: boolean;
  /** What the model's stream failed with, as it was thrown. */
  cause: unknown;
  /** Whether the ledger has been told of its end. */
  isReported = false;
  readonly #plan: AttemptPlan | undefined;
  readonly #answering: Answering | undefined;
  readonly #calls: ToolCalls;
  /** What the model gave the tools, by the ids of its calls. */
  readonly #inputs = new Map<string, unknown>();
  #toolName = "";
  #maxSteps = 0;
  #finishReason: string | undefined;
  /** The reply of an earlier attempt that it goes on from, and how much of it was there before. */
  #earlier: { readonly id: string; readonly parts: number } | undefined;

  constructor({ ref, plan, record, calls, isAnswered, isRecovered }: OwnedParts) {
    this.ref = ref;
    this.isRecovered = isRecovered;
    this.#plan = plan;
    this.#calls = calls;
    this.#answering = plan && new Answering(plan, record, isAnswered);
  }

  get isAnswered(): boolean {
    return this.#answering?.isAnswered ?? false;
  }

  /** Whether it goes on from the reply of an earlier attempt, and is offered no tool but the final answer. */
  get isFollowUp(): boolean {
    return this.#plan?.followUp !== undefined;
  }

  /**
   * The app's settings with what is asked.
   *
   * @param conversation as it is when the model is about to be asked
   */
  arm(
    ctx: TurnContext,
    config: TurnConfig,
    { maxSteps, conversation }: { maxSteps: number; conversation: readonly UIMessage[] },
  ): TurnConfig {
    const answering = this.#answering;
    if (!this.#plan || !answering) return config;
    const { model, maxSteps: most = config.maxSteps ?? maxSteps } = this.#plan;
    const last = this.isFollowUp ? conversation.at(-1) : undefined;
    if (last?.role === "assistant") this.#earlier = { id: last.id, parts: last.parts.length };
    this.#toolName = finalAnswerName({ ...ctx.tools, ...config.tools });
    this.#maxSteps = most;
    const asked = { ...config, maxSteps: most, ...(model !== undefined && { model }) };
    const take = (answer: unknown) => answering.take(answer);
    return askedSettings(ctx, asked, this.#plan, { name: this.#toolName, take });
  }

  /** The model has called a tool, and the app lets it run. */
  called({ toolCallId, input }: Pick<ToolCallContext, "toolCallId" | "input">): void {
    this.#inputs.set(toolCallId, input);
  }

  /** The app's settings with the calls of tools recorded, and with a note about those of earlier runs. */
  async recorded(ctx: TurnContext, config: TurnConfig): Promise<TurnConfig> {
    const tools = recordedOf({ ...ctx.tools, ...config.tools }, this.#calls, (id, input) => {
      const given = this.#inputs.has(id) ? this.#inputs.get(id) : input;
      this.#inputs.delete(id);
      return given;
    });
    if (this.isFollowUp) return { ...config, tools };
    return { ...config, tools, ...(await noted(config.messages ?? ctx.messages, this.#calls)) };
  }

  /** A call of the model has ended. */
  stepped(step: StepContext): void {
    this.#finishReason = finishReasonOf(step);
    this.#answering?.called(step.toolCalls);
  }

  /** The app's settings of a step, which cannot keep the model from the answer, nor ask another one. */
  armStep(event: PrepareStepContext, config: StepOverrides): StepOverrides {
    if (!this.#plan) return config;
    const { model: _model, ...others } = config;
    const kept = this.#plan.model === undefined ? config : others;
    return askedInStep(event, kept, this.#plan, {
      name: this.#toolName,
      maxSteps: this.#maxSteps,
    });
  }

  /** How it ended, with its answer taken from the reply where that is the answer. */
  end(ended: ThinkEnd): TurnEnd {
    const end = { ...this.#endOf(ended), finishReason: this.#finishReason };
    if (!this.#answering) return end;
    const { message } = ended;
    const from = message && message.id === this.#earlier?.id ? this.#earlier.parts : 0;
    if (end.outcome === "completed")
      this.#answering.conclude(textOf(message, from), this.#finishReason);
    return endWithAnswer(end, this.#answering);
  }

  #endOf(ended: ThinkEnd): TurnEnd {
    // What the model has said in place of the call is looked at.
    const isUnanswered = this.#answering !== undefined && isToolChoiceViolation(this.cause);
    return endOf(isUnanswered ? { ...ended, status: "completed" } : ended, this.cause);
  }
}

/** How a turn ended in the words of the ledger, whatever it was to answer. */
export function endOf({ requestId, status, error, message }: ThinkEnd, cause?: unknown): TurnEnd {
  const messageId = message && isKept(message) ? message.id : undefined;
  const facts = { requestId, messageId };
  if (status === "completed") return { outcome: status, ...facts, text: textOf(message) };
  // As in Think, only a failure has a text: whoever aborts a turn knows why.
  if (status !== "error") return { outcome: status, ...facts };
  const failure = {
    name: cause === undefined ? "TurnError" : failureOf(cause).name,
    message: error ?? "The turn has failed.",
  };
  const hasEffects = message?.parts.some(isProviderResult) ?? false;
  return { outcome: status, failure, cause, hasEffects, ...facts };
}
