/**
 * One attempt at a turn beside the conversation, while it lives: what the
 * ledger is told and asked at each step, what has gone wrong, and how it ends.
 * It stores nothing.
 */

import {
  convertToModelMessages,
  type ModelMessage,
  type StepResult,
  type ToolSet,
  type UIMessage,
} from "ai";
import { failureOf } from "../../core/failures.ts";
import {
  type AttemptRef,
  endWithAnswer,
  type Turn,
  type TurnEnd,
  type TurnLedger,
} from "../../submissions/host.ts";
import { textOf } from "./answer-text.ts";
import { Answering } from "./answering.ts";
import { askedInStep, askedSettings } from "./asked-settings.ts";
import { finalAnswerName, isToolChoiceViolation } from "./final-answer.ts";
import { finishReasonOf } from "./finish-reason.ts";
import { guardedOf, offeredOf } from "./offered-tools.ts";
import { noted } from "./recorded-tools.ts";
import type { Step, StepSettings, TurnSetup } from "./turn-source.ts";

/** Stores messages that join the turn, where there is a thread to store them in. */
type Join = (messages: readonly UIMessage[]) => Promise<void>;

type EndedStep = Pick<
  StepResult<ToolSet>,
  "toolCalls" | "usage" | "finishReason" | "rawFinishReason"
>;

export class Attempt {
  #error: { readonly cause: unknown } | undefined;
  readonly #answering: Answering | undefined;
  #answerName = "";
  #finishReason: string | undefined;

  constructor(
    readonly turn: Turn,
    private readonly ref: AttemptRef,
    private readonly ledger: TurnLedger,
    private readonly join: Join,
  ) {
    const { plan } = turn;
    this.#answering = plan && new Answering(plan, (answer) => ledger.answer(ref, answer));
  }

  /** Whether it goes on from the reply of an earlier attempt, which stays. */
  get isFollowUp(): boolean {
    return this.turn.plan?.followUp !== undefined;
  }

  /** What the agent lends, with the ledger's part around the tools and with the answer that is asked for. */
  async armed({ tools, ...lent }: TurnSetup): Promise<TurnSetup> {
    const { plan } = this.turn;
    const decide = lent.hooks?.beforeTool?.bind(lent.hooks);
    // Of a reply that is not complete nothing is left when another attempt asks again.
    const calls = this.ledger.toolCalls(this.ref, this.turn.isAgain ? () => [] : undefined);
    const note = this.isFollowUp ? {} : await noted(lent.messages, calls);
    const setup = { ...lent, ...note, maxSteps: plan?.maxSteps ?? lent.maxSteps };
    const offered = this.isFollowUp ? {} : guardedOf(offeredOf(tools), { decide, calls });
    const armed = { ...setup, tools: offered };
    const answering = this.#answering;
    if (!plan || !answering) return armed;
    const name = finalAnswerName(tools);
    this.#answerName = name;
    const context = { ...armed, system: armed.instructions ?? "" };
    const take = (answer: unknown) => answering.take(answer);
    return askedSettings(context, armed, plan, { name, take });
  }

  /**
   * Before a call of the model.
   *
   * @param known ids of the messages that the model sees already; those that join are added
   * @throws what the ledger refuses the call with
   */
  async step(event: Step, setup: TurnSetup, known: Set<string>): Promise<StepSettings> {
    // An error in the middle of an answer does not keep the AI SDK from going on.
    if (this.#error) throw this.#error.cause;
    const joining = this.ledger.nextStep(this.ref);
    const messages = [...event.messages, ...(await this.#joined(joining, setup.tools, known))];
    const settings = (await setup.hooks?.beforeStep?.({ ...event, messages })) ?? {};
    const step = { ...(joining.length > 0 && { messages }), ...settings };
    const { maxSteps } = setup;
    const { plan } = this.turn;
    return plan ? askedInStep(event, step, plan, { name: this.#answerName, maxSteps }) : step;
  }

  /** After a call of the model, of whose usage the ledger keeps the sums. */
  stepped(step: EndedStep): void {
    const { toolCalls, usage } = step;
    this.#finishReason = finishReasonOf(step);
    this.#answering?.called(toolCalls);
    const { inputTokens, outputTokens, totalTokens } = usage;
    try {
      this.ledger.recordUsage(this.ref, { inputTokens, outputTokens, totalTokens });
    } catch (cause) {
      // The AI SDK swallows what its callbacks throw; unaccounted tokens must not go unnoticed.
      this.failed(cause);
    }
  }

  /** A part of the answer has come. */
  heartbeat(): void {
    this.ledger.heartbeat(this.ref);
  }

  /** The first error stands; later ones follow from it. */
  failed(cause: unknown): void {
    this.#error ??= { cause };
  }

  /** What the attempt failed with, if it did. */
  get cause(): unknown {
    return this.#error?.cause;
  }

  /** How it ended with this reply, without its id: it is not stored yet. */
  end(reply: UIMessage | undefined): TurnEnd {
    const end = { ...this.#endOfStream(), text: textOf(reply) };
    const answering = this.#answering;
    if (!answering) return end;
    if (end.outcome === "completed") answering.conclude(end.text, this.#finishReason);
    return endWithAnswer(end, answering);
  }

  #endOfStream(): TurnEnd {
    const facts = { finishReason: this.#finishReason };
    if (this.turn.signal.aborted) return { outcome: "aborted", ...facts };
    if (!this.#error || this.#isUnanswered()) return { outcome: "completed", ...facts };
    const { cause } = this.#error;
    return { outcome: "error", failure: failureOf(cause), cause, ...facts };
  }

  /** Whether the AI SDK found that the model did not call the tool that it had to: what it said is looked at. */
  #isUnanswered(): boolean {
    return this.#answering !== undefined && isToolChoiceViolation(this.cause);
  }

  async #joined(
    joining: readonly UIMessage[],
    tools: ToolSet,
    known: Set<string>,
  ): Promise<ModelMessage[]> {
    if (joining.length === 0) return [];
    try {
      await this.join(joining);
    } catch (error) {
      this.ledger.part(this.ref, joining);
      throw error;
    }
    // Those that an earlier attempt was joined by are in the thread, and the model has them from there.
    const fresh = joining.filter(({ id }) => !known.has(id));
    for (const { id } of fresh) known.add(id);
    return convertToModelMessages(fresh, { tools });
  }
}
