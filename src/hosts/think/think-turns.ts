/**
 * Runs the turns of a Think agent's own conversation, by Think's public hooks.
 *
 * `runTurn()` runs a turn. If a crash interrupts it, Think's recovery continues it in another turn. That one is recognised by the
 * messages that it answers, gets the final-answer tool again, and ends the submission from `onChatResponse`, as the first would.
 */

import type {
  ChatRecoveryContext,
  ChatRecoveryOptions,
  ChatResponseResult,
  PrepareStepContext,
  Think,
  ToolCallContext,
  ToolCallDecision,
  TurnConfig,
  TurnContext,
} from "@cloudflare/think";
import { convertToModelMessages, type LanguageModel, type UIMessage } from "ai";
import {
  isFinalAnswer,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
} from "../../submissions/host.ts";
import { MAIN } from "../../submissions/threads.ts";
import { IncompleteReplyError, turnModel } from "../sdk/attempt-model.ts";
import { type ChatRecovery, DROPPED } from "../sdk/chat-recovery.ts";
import { idsOf, MainConversation, textOf } from "../sdk/conversation.ts";
import {
  type ChatEnd,
  type OwnedTurn as ChatTurn,
  factsOf,
  RecoveredTurns,
} from "../sdk/recovered-turns.ts";
import { checkModel, recordedOf } from "../sdk/tools.ts";
import type { StepOverrides, ThinkHooks } from "./hooks.ts";
import type { ThinkSubmissions } from "./think-submissions.ts";
import type { TurnIds } from "./turn-ids.ts";

export class ThinkTurns extends RecoveredTurns<OwnedTurn, Think, ThinkSubmissions> {
  protected readonly endOf = endOf;

  constructor(
    agent: Think,
    ledger: ThinkSubmissions,
    recovery: ChatRecovery,
    private readonly ids: TurnIds,
  ) {
    super(agent, ledger, recovery, new MainConversation(agent));
  }

  run(turn: Turn): Promise<TurnEnd> {
    const { channel, signal } = turn;
    const inputOf = ({ messages, plan }: Turn) => {
      // Messages that are stored stay where they are, with the reply that the follow-up continues.
      const stored = idsOf(plan?.followUp === undefined ? [] : this.agent.messages);
      return messages.filter(({ id }) => !stored.has(id));
    };
    return this.runBy(turn, inputOf, async (input) => {
      const result = await this.ids.start(turn.submissionId, () =>
        this.agent.runTurn({ input, signal, ...(channel !== undefined && { channel }) }),
      );
      return { ...result, message: result.message as UIMessage | undefined };
    });
  }

  stop({ messages }: SubmittedTurn, reason: string | undefined): void {
    const seq = this.ledger.store.findByMessage(idsOf(messages))?.seq;
    if (seq === undefined) return;
    const recovering = this.recovering(seq);
    if (recovering) this.agent.cancelChat(recovering, reason);
    for (const requestId of this.running(seq)) this.agent.cancelChat(requestId, reason);
  }

  /** The app's hooks with Perdure's part around them. */
  wrap(app: ThinkHooks): ThinkHooks {
    const { observability } = app;
    return {
      observability: observability && {
        emit: (event) => observability.emit(this.ids.shownEvent(event)),
      },
      beforeTurn: async (ctx) => {
        const owned = this.#own();
        const config = (await app.beforeTurn(ctx)) ?? {};
        return owned ? configOf(owned, this.agent, ctx, config) : config;
      },
      beforeStep: async (ctx) => this.#beforeStep(ctx, (await app.beforeStep(ctx)) ?? {}),
      beforeToolCall: (ctx) =>
        isFinalAnswer(ctx.toolName) ? undefined : this.#beforeTool(ctx, app),
      afterToolCall: (ctx) => (isFinalAnswer(ctx.toolName) ? undefined : app.afterToolCall(ctx)),
      onStepEnd: (ctx) => {
        this.#current()?.attempt.stepped(ctx);
        return app.onStepEnd(ctx);
      },
      onChunk: (ctx) => {
        this.#heartbeat();
        return app.onChunk(ctx);
      },
      onChatResponse: (result) => {
        this.#responded(result);
        return app.onChatResponse(this.ids.shown(result));
      },
      onChatError: (error, ctx) => app.onChatError(error, ctx && this.ids.shown(ctx)),
      classifyChatError: (error, ctx) => {
        // Only this hook gets the error as it was thrown; others get its text.
        const owned = this.get(ctx?.requestId);
        if (owned) owned.attempt.error = { cause: error };
        return app.classifyChatError(error, ctx && this.ids.shown(ctx));
      },
      onChatRecovery: (ctx) => this.#interrupted(ctx, app),
      chatRecovery: this.withExhaustion(app.chatRecovery, (ctx) => this.ids.shownRecovery(ctx)),
    };
  }

  /** Recognises the turn of a submission: the one that `run()` has started, or one that recovery runs. */
  #own(): OwnedTurn | undefined {
    const active = this.ids.own;
    if (!active) return undefined;
    const { requestId, trigger } = active;
    const known = this.get(requestId);
    if (known) return known;
    const { begun } = this;
    const isBegun = begun && this.ids.of(active) === begun.turn.submissionId;
    const run = isBegun && this.takeBegun();
    if (run) return this.#remember(requestId, run);
    if (!trigger.startsWith("recovery-")) return undefined;
    const submission = this.asked();
    if (!submission) return undefined;
    const { status } = submission;
    if (status === "running") return this.#remember(requestId, this.left(submission, true));
    // It was cancelled while its recovery waited.
    this.agent.cancelChat(requestId, `The submission is ${status}`);
    return undefined;
  }

  #remember(requestId: string, run: ChatTurn): OwnedTurn {
    return this.set(requestId, { ...run, inputs: new Map() });
  }

  /** Before each call of the model: the ledger checks the budget, and messages may join the turn. */
  async #beforeStep(ctx: PrepareStepContext, config: StepOverrides): Promise<StepOverrides> {
    const owned = this.#current();
    if (!owned) {
      this.#heartbeat();
      const { admissions } = this.ledger.limiter;
      const resolved = this.#resolved(config);
      const settings = admissions?.settings(undefined, ctx, resolved) ?? resolved;
      // The result of an agent tool is an answer. A client sees how its turn ends.
      const accepts = this.ids.own?.trigger === "agent-tool" ? "complete" : "any";
      const model = (settings.model ?? ctx.model) as LanguageModel;
      return { ...settings, model: turnModel(model, accepts) };
    }
    const { attempt, isRecovered } = owned;
    // A recovered turn continues a reply that is in the conversation already: what joined would come after it.
    const joined = await attempt.nextStep(
      ctx.model,
      (all) => this.agent.addMessages(all),
      !isRecovered,
    );
    // The model that a prompt names comes before that of the app.
    const { model: _, ...others } = config;
    const settings = attempt.plan?.model === undefined ? this.#resolved(config) : others;
    if (joined.length === 0) return attempt.stepSettings(ctx, settings);
    const shown = [...(config.messages ?? ctx.messages), ...(await convertToModelMessages(joined))];
    return attempt.stepSettings(ctx, { ...settings, messages: shown });
  }

  /** With the model itself in place of its id. */
  #resolved({ model, ...config }: StepOverrides): StepOverrides {
    return model === undefined ? config : { ...config, model: this.agent.resolveModel(model) };
  }

  /** The app may change the input; the ledger records the call by the model's input. */
  async #beforeTool(ctx: ToolCallContext, app: ThinkHooks): Promise<ToolCallDecision | undefined> {
    const owned = this.#current();
    if (owned?.attempt.isFollowUp)
      return { action: "block", reason: "No tools are left for this turn." };
    const decision = (await app.beforeToolCall(ctx)) ?? undefined;
    if (decision === undefined || decision.action === "allow")
      owned?.inputs.set(ctx.toolCallId, ctx.input);
    return decision;
  }

  /** A turn of the conversation makes progress: a submission's, or one that submissions wait for. */
  #heartbeat(): void {
    const owned = this.#current();
    if (owned) owned.attempt.heartbeat();
    // Side turns come here, too; no submission waits for them in this thread.
    else if (this.ids.own) this.ledger.turns.busy(MAIN);
  }

  #current(): OwnedTurn | undefined {
    return this.get(this.ids.own?.requestId);
  }

  #responded(result: ChatResponseResult): void {
    const { requestId, status, error, message, recovered } = result;
    const owned = this.get(requestId) ?? (recovered ? this.#ownerOfReply(result) : undefined);
    if (owned) this.ended(owned, { requestId, status, error, message });
  }

  /** The object went down between a stored reply and its hook: the reply identifies its submission. */
  #ownerOfReply({ requestId, message: reply }: ChatResponseResult): OwnedTurn | undefined {
    const { messages } = this.agent;
    const at = messages.findIndex(({ id }) => id === reply.id);
    const submission = this.asked(at < 0 ? messages : messages.slice(0, at));
    if (submission) this.ids.set(requestId, submission.submissionId);
    if (submission?.status !== "running") return undefined;
    return this.#remember(`reply:${reply.id}`, this.left(submission, false));
  }

  /** Think is about to recover a turn: whether it should. */
  async #interrupted(
    ctx: ChatRecoveryContext,
    app: ThinkHooks,
  ): Promise<ChatRecoveryOptions | void> {
    // Its partial reply must not come back.
    if (this.recovery.isReset(ctx)) return DROPPED;
    // Think ends the submission as interrupted.
    if (await this.ledger.think.isOvertaken(ctx.recoveryRootRequestId)) return DROPPED;
    const submission = this.asked(ctx.messages);
    if (!submission) return app.onChatRecovery(ctx);
    this.ids.set(ctx.requestId, submission.submissionId);
    return this.recover(submission, ctx, async () => app.onChatRecovery(this.ids.shown(ctx)));
  }
}

type OwnedTurn = ChatTurn & {
  /** The tool inputs of the model, by the ids of its calls. */
  readonly inputs: Map<string, unknown>;
  /** The reply of an earlier attempt that it continues, and how many parts that had. */
  earlier?: { readonly id: string; readonly parts: number };
};

/** The app's settings of a turn, with recorded tools and with what the attempt asks for. */
function configOf(
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
  checkModel(model ?? ctx.model, agent.constructor.name);
  const settings = { ...config, tools, ...(model !== undefined && { model }) };
  const { maxSteps = agent.maxSteps } = config;
  return attempt.settings(ctx, settings, { tools: all, maxSteps });
}

/** How a turn ended, with its answer taken from the reply if one was asked for. */
function endOf(owned: OwnedTurn | undefined, ended: ChatEnd): TurnEnd {
  const { message } = ended;
  if (!owned) return factsOf(ended, undefined);
  const { attempt, earlier } = owned;
  const from = message && message.id === earlier?.id ? earlier.parts : 0;
  const { cause } = attempt.error ?? {};
  // Think aborts a turn whose stream has stalled.
  const isStalled = ended.status === "aborted" && cause instanceof IncompleteReplyError;
  const status = attempt.isUnanswered ? "completed" : isStalled ? "error" : ended.status;
  return attempt.end(factsOf({ ...ended, status }, cause), textOf(message, from));
}
