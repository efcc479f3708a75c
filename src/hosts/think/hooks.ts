/** What a Think agent lends to its turns: itself, its hooks, its ledger. */

import type {
  ActiveTurn,
  ChatErrorClassification,
  ChatErrorContext,
  ChatRecoveryConfig,
  ChatRecoveryContext,
  ChatRecoveryOptions,
  ChatResponseResult,
  ChunkContext,
  PrepareStepContext,
  StepConfig,
  StepContext,
  Think,
  ToolCallContext,
  ToolCallDecision,
  ToolCallResultContext,
  TurnConfig,
  TurnContext,
} from "@cloudflare/think";
import type { Observability } from "agents/observability";
import type { PrepareStepResult, ToolSet } from "ai";
import type { SubmissionInspection, Submissions, TurnHost } from "../../submissions/index.ts";
import type { SubmissionClients } from "../agent/submission-clients.ts";
import type { ThinkLedger } from "./think-ledger.ts";

/** Think's hooks that Perdure stands in front of; the app's own still run. */
export type ThinkHooks = {
  beforeTurn(ctx: TurnContext): TurnConfig | void | Promise<TurnConfig | void>;
  beforeStep(ctx: PrepareStepContext): StepConfig | void | Promise<StepConfig | void>;
  beforeToolCall(ctx: ToolCallContext): ToolCallDecision | void | Promise<ToolCallDecision | void>;
  afterToolCall(ctx: ToolCallResultContext): void | Promise<void>;
  onStepEnd(ctx: StepContext): void | Promise<void>;
  onChunk(ctx: ChunkContext): void | Promise<void>;
  onChatResponse(result: ChatResponseResult): void | Promise<void>;
  onChatError(error: unknown, ctx?: ChatErrorContext): unknown;
  classifyChatError(error: unknown, ctx?: ChatErrorContext): ChatErrorClassification | void;
  onChatRecovery(ctx: ChatRecoveryContext): Promise<ChatRecoveryOptions | void>;
  chatRecovery: ChatRecoveryConfig;
  /** Where agents and Think emit their events. */
  observability: Observability | undefined;
};

/** What `beforeStep` may return; Think's own type of it has lost these. */
export type StepOverrides = StepConfig &
  Pick<NonNullable<PrepareStepResult<ToolSet>>, "toolChoice" | "activeTools" | "messages">;

/** What of a host is about the agent's own conversation. */
export type MainTurns = Pick<TurnHost, "run" | "stop" | "inspectConversation" | "removeMessages">;

/** What a Think agent lends to its turns. */
export type ThinkPort = {
  readonly agent: Think;
  /** The turn that runs, as Think itself has it; `agent.activeTurn` is what the app sees. */
  readonly activeTurn: () => ActiveTurn | undefined;
  /** Whether the caller runs in the agent's context. */
  readonly isInContext: () => boolean;
  /** What Think itself has accepted. */
  readonly think: Pick<ThinkLedger, "caughtUp">;
  readonly ledger: () => Submissions;
  /** Puts the wrapped hooks into their places. */
  readonly wrapHooks: () => void;
  readonly clients: SubmissionClients;
  readonly onStatus: (submission: SubmissionInspection) => Promise<void>;
};
