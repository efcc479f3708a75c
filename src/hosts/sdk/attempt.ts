/**
 * One attempt at a turn while it runs, by the AI SDK or by Think: its calls of the ledger, its answer, and how the
 * attempt ends. It stores nothing itself.
 */

import type { LanguageModel, ModelMessage, StepResult, ToolSet, UIMessage } from "ai";
import type { ToolCalls, TurnEngine } from "../../kernel/submissions/internal.ts";
import {
  type AttemptPlan,
  type AttemptRef,
  endWithAnswer,
  type SettledCall,
  type TurnEnd,
} from "../../kernel/submissions/internal.ts";
import { Answering } from "./answering.ts";
import {
  askedInStep,
  askedSettings,
  finalAnswerName,
  isToolChoiceViolation,
  type TurnContext,
  type TurnSettings,
} from "./final-answer.ts";
import { noted } from "./tools.ts";

/** The end of a turn that has ended here. */
export type EndedTurn = Exclude<TurnEnd, { outcome: "recovering" | "reported" }>;

/** What an attempt calls of the ledger. */
export type TurnLedger = Pick<
  TurnEngine,
  "nextStep" | "detachJoined" | "recordUsage" | "toolCalls" | "heartbeat" | "answer"
> & { readonly ledger: Pick<TurnEngine["ledger"], "admissions"> };

export type AttemptOptions = {
  readonly ledger: TurnLedger;
  readonly ref: AttemptRef;
  readonly plan: AttemptPlan | undefined;
  /** The ended calls in the stored replies to the turn; undefined for the first run of the turn. */
  readonly settled: (() => readonly SettledCall[]) | undefined;
  /** Whether an earlier run of the attempt has recorded the answer. */
  readonly isAnswered?: boolean;
};

type Limits = { readonly tools: ToolSet; readonly maxSteps: number };

type EndedStep = Pick<
  StepResult<ToolSet>,
  "toolCalls" | "usage" | "finishReason" | "rawFinishReason"
> &
  Partial<Pick<StepResult<ToolSet>, "model" | "performance">>;

export class Attempt {
  readonly ref: AttemptRef;
  readonly plan: AttemptPlan | undefined;
  readonly calls: ToolCalls;
  /** What the attempt failed with, as it was thrown. */
  error: { readonly cause: unknown } | undefined;
  readonly #ledger: TurnLedger;
  readonly #answering: Answering | undefined;
  #answerName = "";
  #maxSteps = 0;
  #finishReason: string | undefined;

  constructor({ ledger, ref, plan, settled, isAnswered }: AttemptOptions) {
    this.ref = ref;
    this.plan = plan;
    this.calls = ledger.toolCalls(ref, settled);
    this.#ledger = ledger;
    this.#answering = plan && new Answering(plan, (it) => ledger.answer(ref, it), isAnswered);
  }

  get isAnswered(): boolean {
    return this.#answering?.isAnswered ?? false;
  }

  /** Whether it continues the reply of an earlier attempt, and is offered no tool but the final answer. */
  get isFollowUp(): boolean {
    return this.plan?.followUp !== undefined;
  }

  /**
   * The settings of the turn, with what the plan asks of the model, and with a note about tool calls of earlier runs.
   * @param limits.tools all tools of the agent, whose names the final answer must not take
   */
  async settings<Config extends TurnSettings>(
    ctx: TurnContext,
    config: Config,
    limits: Limits,
  ): Promise<Config & { messages?: ModelMessage[] }> {
    return this.settingsWith(await this.note(), ctx, config, limits);
  }

  /** The calls of earlier runs, as a note for the model. */
  async note(): Promise<string | undefined> {
    return this.isFollowUp ? undefined : this.calls.note();
  }

  /** The same as {@link settings}, for a caller that has the note. */
  settingsWith<Config extends TurnSettings>(
    content: string | undefined,
    ctx: TurnContext,
    config: Config,
    limits: Limits,
  ): Config & { messages?: ModelMessage[] } {
    const { plan } = this;
    const answering = this.#answering;
    const note = noted(config.messages ?? ctx.messages, content);
    if (!plan || !answering) return { ...config, ...note };
    const { maxSteps = limits.maxSteps } = plan;
    this.#maxSteps = maxSteps;
    this.#answerName = finalAnswerName(limits.tools);
    const tool = { name: this.#answerName, take: (answer: unknown) => answering.take(answer) };
    return askedSettings(ctx, { ...config, ...note, maxSteps }, plan, tool);
  }

  /** The settings of a step, which cannot keep the model from the answer, nor go around the limits of `limits()`. */
  stepSettings<
    Config extends Parameters<typeof askedInStep>[1] & {
      readonly model?: unknown;
    },
  >(event: { readonly stepNumber: number; readonly model: LanguageModel }, config: Config): Config {
    const { admissions } = this.#ledger.ledger;
    const settings = admissions?.settings(this.ref.seq, event, config) ?? config;
    if (!this.plan) return settings;
    return askedInStep(event.stepNumber, settings, this.plan, this.#answerName, this.#maxSteps);
  }

  /**
   * Before a call of the model.
   * @param model as the AI SDK has it: its id, or an object with its id
   * @param store stores the messages of other submissions that join the turn now
   * @param canJoin whether they could come before the reply
   * @returns the messages that have joined
   * @throws what the ledger refuses the call with
   */
  async nextStep(
    model: LanguageModel,
    store: (joining: UIMessage[]) => Promise<void>,
    canJoin = true,
  ): Promise<UIMessage[]> {
    const { modelId, provider } = typeof model === "string" ? { modelId: model } : model;
    const joining = this.#ledger.nextStep(this.ref, canJoin, { model: modelId, provider });
    if (joining.length === 0) return joining;
    try {
      await store(joining);
    } catch (error) {
      this.#ledger.detachJoined(this.ref, joining);
      throw error;
    }
    return joining;
  }

  stepped(step: EndedStep): void {
    const { finishReason, rawFinishReason } = step;
    // The AI SDK reports a stream without a finish as "other", and providers do the same.
    const isUnknown = finishReason === "other" && rawFinishReason === undefined;
    this.#finishReason = isUnknown ? "unknown" : finishReason;
    this.#answering?.called(step.toolCalls);
    const { inputTokens, outputTokens, totalTokens } = step.usage;
    this.#ledger.recordUsage(
      this.ref,
      { inputTokens, outputTokens, totalTokens },
      {
        model: step.model?.modelId,
        provider: step.model?.provider,
        // A step ends after its tools, a model call before them.
        durationMs: step.performance?.responseTimeMs,
      },
    );
  }

  /** The same, in a callback of the AI SDK, which swallows errors: tokens that were not recorded must fail the turn. */
  stepEnded(step: EndedStep): void {
    try {
      this.stepped(step);
    } catch (cause) {
      this.failed(cause);
    }
  }

  heartbeat(): void {
    this.#ledger.heartbeat(this.ref);
  }

  /** The first error counts; later ones follow from it. */
  failed(cause: unknown): void {
    this.error ??= { cause };
  }

  /** Whether the AI SDK found that the model did not call the final answer. Then the text of its reply may be the answer. */
  get isUnanswered(): boolean {
    return this.#answering !== undefined && isToolChoiceViolation(this.error?.cause);
  }

  /**
   * How the attempt ends. Where an answer was asked for, that decides.
   * @param text what the reply says after its last tool call
   */
  end(end: EndedTurn, text: string): TurnEnd {
    const ended = { ...end, finishReason: this.#finishReason };
    const answering = this.#answering;
    if (!answering) return ended;
    if (end.outcome === "completed") answering.conclude(text, this.#finishReason);
    return endWithAnswer(ended, answering);
  }
}
