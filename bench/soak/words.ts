/** The words that the driver, the worker and the receiver of the soak have in common. All of it travels as JSON. */

/** The tool calls of a turn: the keys of what is called in each of its steps. The same key twice is meant. */
export type Effects = readonly (readonly string[])[];

/** One step of a workflow. */
export type PlanStep =
  | {
      readonly kind: "prompt";
      readonly thread: string;
      readonly delayMs: number;
      readonly refusedUntil: number;
      readonly effects: Effects;
    }
  | { readonly kind: "promptAll"; readonly items: number; readonly delayMs: number }
  | { readonly kind: "approval" }
  | { readonly kind: "child"; readonly delayMs: number }
  | { readonly kind: "sleep"; readonly ms: number };

/** What a workflow does, one step after the other. */
export type Plan = { readonly id: string; readonly steps: readonly PlanStep[] };

/** A turn that is submitted. */
export type Ask = {
  /** Its idempotency key, and the id of its message. */
  readonly key: string;
  readonly thread: string;
  readonly delayMs: number;
  readonly effects: Effects;
  /** Whether its first tool call kills the agent, once. */
  readonly hasBomb: boolean;
  /** Whether its end is also delivered to a method that kills the agent, twice. */
  readonly hasBoom: boolean;
  /** Until then the model refuses it with 429; epoch milliseconds. */
  readonly refusedUntil: number;
  /** Epoch milliseconds. */
  readonly notBefore?: number;
};

/** What a webhook carries: the end of a submission, or a slot of a schedule. */
export type HookEvent =
  | {
      readonly type: `submission.${string}`;
      readonly data: {
        readonly submissionId: string;
        readonly status: string;
        readonly error?: string;
      };
    }
  | {
      readonly type: "slot";
      readonly agent: string;
      readonly task: string;
      readonly slot: number;
      readonly key: string;
    };

/** What a workflow tells of itself in its last step. */
export type Outcome = { readonly workflow: string; readonly outcome: string };

/** The word for a child whose run was given up. */
export const CUT_OFF = "child:interrupted";

/** What an agent has in its storage. */
export type Look = {
  readonly agent: string;
  readonly submissions: readonly {
    readonly id: string;
    readonly key: string | null;
    readonly status: string;
    readonly attempts: number;
    readonly error: string | null;
    /** When it was last claimed, and when it is due again; epoch milliseconds. */
    readonly startedAt: number | null;
    readonly dueAt: number | null;
    /** How the attempts failed that were followed by another one. */
    readonly failures: string | null;
  }[];
  readonly workflows: readonly { readonly id: string; readonly status: string }[];
  readonly runs: readonly {
    readonly task: string;
    readonly slot: number;
    readonly key: string;
    readonly status: string;
    readonly submissionId: string | null;
    readonly error: string | null;
  }[];
  /** Occurrences that passed and were not caught up, by task. */
  readonly missed: Readonly<Record<string, number>>;
  readonly openWaits: readonly string[];
  readonly outbox: readonly string[];
  readonly deadLetters: readonly string[];
  /** Ids of the messages in the conversations that can be cleared, by thread. */
  readonly messages: Readonly<Record<string, readonly string[]>>;
  readonly alarm: number | null;
  /** Of the job queue, which the alarm stands for. */
  readonly jobs: readonly { readonly id: string; readonly time: number }[];
};

/** Tasks that every agent has, and how far apart their slots are. */
export const TASKS: Readonly<Record<string, number>> = { tick: 10_000, think: 20_000 };

/** As public as the soak is: what signs its webhooks. */
export const HOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Conversations that the driver clears, and what it calls for that. */
export const CLEARS = { main: "clearMain", side: "clearSide" } as const;

/** Agents that are cleared, reset, and killed by their own tools and deliveries; they run no workflows. */
export function isDisturbed(agent: string): boolean {
  return agent.startsWith("d");
}
