/** The types that the driver, the worker and the receiver of the soak share. All values are JSON. */

/** The tool calls of a turn: the keys of the calls in each step. A key may occur twice. */
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

/** The steps of a workflow, in order. */
export type Plan = { readonly id: string; readonly steps: readonly PlanStep[] };

/** A submission. */
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
  /** Until this time the model answers 429; epoch milliseconds. */
  readonly refusedUntil: number;
  /** Epoch milliseconds. */
  readonly notBefore?: number;
};

/** The body of a webhook: the end of a submission, or an occurrence of a schedule. */
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
      readonly type: "occurrence";
      readonly agent: string;
      readonly task: string;
      readonly occurrence: number;
      readonly key: string;
    };

/** The report of a workflow in its last step. */
export type Outcome = { readonly workflow: string; readonly outcome: string };

/** The outcome of a child whose run was interrupted. */
export const CUT_OFF = "child:interrupted";

/** The contents of an agent's storage. */
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
    /** The errors of attempts that were retried. */
    readonly failures: string | null;
  }[];
  readonly workflows: readonly { readonly id: string; readonly status: string }[];
  readonly runs: readonly {
    readonly task: string;
    readonly occurrence: number;
    readonly key: string;
    readonly status: string;
    readonly submissionId: string | null;
    readonly error: string | null;
  }[];
  /** Missed occurrences, by task. */
  readonly missed: Readonly<Record<string, number>>;
  readonly openWaits: readonly string[];
  readonly outbox: readonly string[];
  readonly deadLetters: readonly string[];
  /** Ids of the messages in the conversations that can be cleared, by thread. */
  readonly messages: Readonly<Record<string, readonly string[]>>;
  readonly alarm: number | null;
  /** Jobs of the queue behind the alarm. */
  readonly jobs: readonly { readonly id: string; readonly time: number }[];
};

/** The tasks of every agent, and the interval between their occurrences. */
export const TASKS: Readonly<Record<string, number>> = { tick: 10_000, think: 20_000 };

/** Signs the webhooks of the soak. Not a real secret. */
export const HOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** The conversations that the driver clears, and the verbs for that. */
export const CLEARS = { main: "clearMain", side: "clearSide" } as const;

/** Agents that are cleared, reset, and crashed by their own tools and deliveries. They run no workflows. */
export function isDisturbed(agent: string): boolean {
  return agent.startsWith("d");
}
