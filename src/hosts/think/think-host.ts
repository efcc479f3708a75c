/** A Think agent as the ledger sees it: Think runs the turns of the agent's own conversation. */

import { type ActiveTurn, Think, type ThinkSubmissionInspection } from "@cloudflare/think";
import type { UIMessage } from "ai";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import { MAIN, type Turn, type TurnEnd } from "../../kernel/submissions/internal.ts";
import { ChatHostBase } from "../sdk/chat-host-base.ts";
import type { HostParts } from "../sdk/host-base.ts";
import type { TurnSource } from "../sdk/turn-source.ts";
import type { HookedThink, ThinkHooks } from "./hooks.ts";
import { thinkSource } from "./side-turns.ts";
import { inspectionOf, ThinkLedger } from "./think-ledger.ts";
import { ThinkSubmissions } from "./think-submissions.ts";
import { ThinkTurns } from "./turns/think-turns.ts";
import { TurnIds } from "./turns/turn-ids.ts";

export class ThinkHost extends ChatHostBase<ThinkSubmissions> {
  readonly mainTurns: ThinkTurns;
  readonly ids: TurnIds;
  /** Known at the start, with the hooks of the app's class. */
  #sideSource: TurnSource | undefined;

  constructor(
    parts: HostParts,
    private readonly agent: HookedThink,
  ) {
    const source: TurnSource = (request) => {
      if (!this.#sideSource) throw new Error("The agent has not started");
      return this.#sideSource(request);
    };
    super(
      parts,
      { agent, source, turnTask: Think.CHAT_FIBER_NAME },
      (host) => new ThinkSubmissions(new ThinkLedger(agent), host, parts.outbox, parts.limits),
    );
    this.ids = new TurnIds(agent, this.submissions);
    this.mainTurns = new ThinkTurns(agent, this.submissions, this.recovery, this.ids);
  }

  protected wrapHooks(): void {
    const { agent } = this;
    const app: ThinkHooks = {
      beforeTurn: agent.beforeTurn.bind(agent),
      beforeStep: agent.beforeStep.bind(agent),
      beforeToolCall: agent.beforeToolCall.bind(agent),
      afterToolCall: agent.afterToolCall.bind(agent),
      onStepEnd: agent.onStepEnd.bind(agent),
      onChunk: agent.onChunk.bind(agent),
      onChatResponse: agent.onChatResponse.bind(agent),
      onChatError: agent.onChatError.bind(agent),
      classifyChatError: agent.classifyChatError.bind(agent),
      onChatRecovery: agent.onChatRecovery.bind(agent),
      chatRecovery: agent.chatRecovery,
      observability: agent.observability,
    };
    const onSubmissionStatus = agent.onSubmissionStatus.bind(agent);
    this.#sideSource = thinkSource(agent, app);
    Object.assign(agent, this.mainTurns.wrap(app));
    if (!this.hasStatusHook()) return;
    Object.assign(agent, {
      // Think calls it for the submissions that Think runs.
      onSubmissionStatus: (submission: SubmissionInspection | ThinkSubmissionInspection) =>
        onSubmissionStatus(
          "thread" in submission ? submission : inspectionOf(submission, agent.messages),
        ),
    });
  }

  override async run(turn: Turn): Promise<TurnEnd> {
    if (turn.thread === MAIN) await this.submissions.think.caughtUp(turn.signal);
    return super.run(turn);
  }

  /** The turn that the caller runs in, as the app sees it: it has the submission's id. */
  activeTurn(): ActiveTurn | undefined {
    const turn = this.ids.active();
    if (turn) return turn;
    const { submissionId: requestId } = this.scope;
    if (requestId === undefined) return undefined;
    return { requestId, trigger: "submission", continuation: false };
  }

  override submissionOf(requestId: string): string | undefined {
    return this.ids.submissionOf(requestId);
  }

  override isInsideTurn(): boolean {
    return this.activeTurn() !== undefined;
  }

  override messages(thread: string): Promise<UIMessage[]> {
    return thread === MAIN ? this.agent.getMessages() : super.messages(thread);
  }
}
