/**
 * One attempt at a turn while it runs, by the AI SDK or by Think: its calls of the ledger, its answer, and how the
 * attempt ends. It stores nothing itself.
 */

import {
  type LanguageModel,
  type ModelMessage,
  type StepResult,
  type StopCondition,
  stepCountIs,
  type ToolSet,
  type UIMessage,
} from "ai";
import type { ToolCalls } from "../../submissions/host.ts";
import { endWithAnswer, type TurnEnd } from "../../submissions/host.ts";
import type { AttemptRef } from "../../submissions/states.ts";
import type { TurnFacts } from "../../submissions/store/rows.ts";
import type { SettledCall } from "../../submissions/store/tool-calls.ts";
import type { AttemptPlan } from "../../submissions/turns/next-attempt.ts";
import type { TurnEngine } from "../../submissions/turns/turn-engine.ts";
import { Answering } from "./answering.ts";
import { type AttemptCalls, attemptModel, isCutOff } from "./attempt-model.ts";
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
> & {
  readonly limiter: Pick<TurnEngine["limiter"], "admissions">;
  readonly budgets: Pick<TurnEngine["budgets"], "reserveTokens" | "finished">;
};

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

type EndedStep = Pick<StepResult<ToolSet>, "toolCalls" | "usage"> &
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
  /** Steps after which their number alone ended the turn, with results of tools that the model has not seen. */
  #usedSteps: number | undefined;
  #finishReason: string | undefined;
  /** The error of the latest call of the model. */
  #problem: unknown;

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
    if (!plan || !answering) {
      const stops = [stepCountIs(limits.maxSteps), ...[config.stopWhen ?? []].flat()];
      return { ...config, ...note, stopWhen: stops.map((isMet) => this.#watched(isMet)) };
    }
    const { maxSteps = limits.maxSteps } = plan;
    this.#maxSteps = maxSteps;
    this.#answerName = finalAnswerName(limits.tools);
    const tool = { name: this.#answerName, take: answering.take.bind(answering) };
    return askedSettings(ctx, { ...config, ...note, maxSteps }, plan, tool);
  }

  /** The settings of a step, which cannot keep the model from the answer, nor go around the limits of `limits()`. */
  stepSettings<
    Config extends Parameters<typeof askedInStep>[1] & {
      readonly model?: unknown;
    },
  >(event: { readonly stepNumber: number; readonly model: LanguageModel }, config: Config): Config {
    const { admissions } = this.#ledger.limiter;
    const limited = admissions?.settings(this.ref.seq, event, config) ?? config;
    const model = attemptModel((limited.model ?? event.model) as LanguageModel, this.#calls);
    const settings = { ...limited, model };
    if (!this.plan) return settings;
    return askedInStep(event.stepNumber, settings, this.plan, this.#answerName, this.#maxSteps);
  }

  readonly #calls: AttemptCalls = {
    accepts: "partial",
    ids: new Set(),
    recordedIds: () => this.calls.recordedIds(),
    starting: (worst) => this.#ledger.budgets.reserveTokens(this.ref, worst),
    ended: (end) => {
      this.#answering?.called(end.answers);
      this.#problem = end.problem;
      // For a call without the final answer, the AI SDK reports "error" as the reason.
      this.#finishReason = end.finishReason;
      if (end.usage === undefined) return;
      if (end.problem === undefined)
        this.#ledger.budgets.finished(this.ref, end.usage, end.runsTools);
      else this.#ledger.recordUsage(this.ref, end.usage);
    },
  };

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
    // After an error in the middle of a step with tool calls, the AI SDK would go on.
    if (this.#problem !== undefined) throw this.#problem;
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
    this.#answering?.stepped(step.toolCalls);
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

  /** The reply of a model that is not the attempt's has ended. */
  finished(reason: string | undefined, problem: Error | undefined): void {
    this.#finishReason = reason;
    if (problem) this.failed(problem);
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
    if (!answering)
      return this.#usedSteps && text.trim() === "" ? outOfSteps(ended, this.#usedSteps) : ended;
    if (end.outcome === "completed") answering.conclude(text, this.#finishReason);
    // Whatever cut off the text after the call of the final answer, the answer is whole.
    const isWhole = answering.isAnswered && isCutOff(this.#finishReason);
    return endWithAnswer(isWhole ? { ...ended, finishReason: "tool-calls" } : ended, answering);
  }

  /** The same condition, which shows whether the number of steps alone has met it. */
  #watched(isMet: StopCondition<ToolSet>): StopCondition<ToolSet> {
    return async ({ steps }) => {
      if (!(await isMet({ steps }))) return false;
      if (await isMetBy(isMet, steps.length)) this.#usedSteps = steps.length;
      return true;
    };
  }
}

/** Whether a condition holds for so many steps, whatever they did. */
async function isMetBy(isMet: StopCondition<ToolSet>, count: number): Promise<boolean> {
  const step = { content: [], text: "", toolCalls: [], toolResults: [] };
  const steps = Array.from({ length: count }, () => step as unknown as StepResult<ToolSet>);
  try {
    return await isMet({ steps });
  } catch {
    // It reads more of the steps than their number.
    return false;
  }
}

function outOfSteps(end: EndedTurn & TurnFacts, steps: number): TurnEnd {
  if (end.outcome !== "completed") return end;
  const message =
    `The turn used all of its ${steps} steps (maxSteps) and ended without an answer, after its tools had run. ` +
    "Raise maxSteps, or ask for less in one turn.";
  return { ...end, outcome: "error", failure: { name: "MaxStepsReachedError", message } };
}
