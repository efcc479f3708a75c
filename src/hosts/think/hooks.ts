/** The hooks of an app on Think that Perdure calls or wraps. */

import type {
  ChatRecoveryContext,
  ChatRecoveryOptions,
  StepConfig,
  Think,
} from "@cloudflare/think";
import type { Observability } from "agents/observability";
import type { PrepareStepResult, ToolSet } from "ai";
import type { HostHooks } from "../sdk/sdk-host.ts";

/** Think's hooks that Perdure wraps; the app's own run inside. */
export type ThinkHooks = Pick<
  Think,
  | "beforeTurn"
  | "beforeStep"
  | "beforeToolCall"
  | "afterToolCall"
  | "onStepEnd"
  | "onChunk"
  | "onChatResponse"
  | "onChatError"
  | "classifyChatError"
  | "chatRecovery"
> & {
  observability: Observability | undefined;
  onChatRecovery(ctx: ChatRecoveryContext): Promise<ChatRecoveryOptions | void>;
};

/** What `beforeStep` may return; Think's own type of it has lost these. */
export type StepOverrides = StepConfig &
  Pick<NonNullable<PrepareStepResult<ToolSet>>, "toolChoice" | "activeTools" | "messages">;

/** A DurableThink, with the hooks that are protected in its class. */
export type HookedThink = Think & HostHooks & { onChatRecovery: ThinkHooks["onChatRecovery"] };
