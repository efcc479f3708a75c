/** Types that the driver, the worker and the receiver of the soak share. All values are JSON. */

/** Tool calls of a turn: the keys of the calls in each step. A key may occur twice. */
export type Effects = readonly (readonly string[])[];

/** `effect` is an ordinary tool, `charge` has durable steps, `bomb` crashes its agent after the effect. */
export type ToolName = "effect" | "charge" | "bomb";

/** One step of a workflow. Each answers with a text of its own. */
export type PlanStep =
  | {
      readonly kind: "prompt";
      readonly thread: string;
      readonly delayMs: number;
      readonly refusedUntil: number;
      readonly tool: ToolName;
      readonly effects: Effects;
    }
  | { readonly kind: "promptAll"; readonly items: number; readonly delayMs: number }
  | { readonly kind: "approval" }
  | { readonly kind: "webhook" }
  | { readonly kind: "child"; readonly delayMs: number }
  | { readonly kind: "sleep"; readonly ms: number };

/** Steps of a workflow, in order. */
export type Plan = { readonly id: string; readonly steps: readonly PlanStep[] };

export type WhenBusy = "enqueue" | "reject" | "interrupt" | "rollback" | "steer";

/** A submission. */
export type Ask = {
  /** Its idempotency key, and the id of its message. */
  readonly key: string;
  /** The text of its answer, which no other submission has. */
  readonly text: string;
  /** Answers `{ said: text }` by a schema. */
  readonly hasOutput: boolean;
  readonly thread: string;
  readonly delayMs: number;
  readonly tool: ToolName;
  readonly effects: Effects;
  /** Delivers its end also to a method that crashes the agent, twice. */
  readonly hasBoom: boolean;
  /** Until this time the model answers 429; epoch milliseconds. */
  readonly refusedUntil: number;
  readonly whenBusy: WhenBusy;
  /** Epoch milliseconds. */
  readonly notBefore?: number;
  readonly expiresInMs?: number;
};

/** An answer of `submitMessages()`, or the name of its error. */
export type Accepted =
  | { readonly submissionId: string; readonly accepted: boolean; readonly conflict: boolean }
  | { readonly refused: string };

/** An event for the outbox. */
export type Put = {
  readonly id: string;
  /** `stubborn` is a method that refuses the event until it is redriven. */
  readonly to: "webhook" | "accept" | "stubborn";
};

/** The body of an inbound webhook. */
export type ArrivalBody = {
  readonly type: "note" | "submit" | "step";
  readonly agent: string;
  readonly key: string;
  /** Of a `submit`. */
  readonly ask?: Ask;
};

/** The body of an outbound webhook: the end of a submission, or an event of the app. */
export type HookEvent =
  | {
      readonly type: `submission.${string}`;
      readonly data: {
        readonly submissionId: string;
        readonly status: string;
        readonly output?: unknown;
        readonly error?: string;
        readonly metadata?: { readonly arrival?: string };
      };
    }
  | {
      readonly type: "occurrence";
      readonly agent: string;
      readonly task: string;
      readonly occurrence: number;
      readonly cause: string;
      readonly key: string;
    }
  | { readonly type: "put" | "arrival"; readonly key: string };

/** The report of a workflow in its last step: the result of each step. */
export type Outcome = { readonly workflow: string; readonly outcome: readonly string[] };

/** A step of a durable tool that has run. */
export type ToolStep = {
  /** The call's key in the plan. */
  readonly key: string;
  readonly step: "take" | "note";
  readonly idempotencyKey: string;
  /** Drawn by `take`, and passed on to `note`. */
  readonly token: string;
};

/** Results of tool calls that the model has read, by the call's key, in order. */
export type Reading = {
  readonly text: string;
  readonly results: readonly (readonly [key: string, result: string])[];
};

/** The outcome of a child whose run was interrupted. */
export const CUT_OFF = "child:interrupted";

export type Said = { readonly id: string; readonly role: string; readonly text: string };

/** The state of an agent, by its public verbs. */
export type Look = {
  readonly agent: string;
  readonly submissions: readonly {
    readonly id: string;
    readonly key: string | null;
    readonly thread: string;
    readonly status: string;
    readonly attempts: number;
    readonly output: unknown;
    readonly messageId: string | null;
    readonly mergedInto: string | null;
    readonly error: string | null;
    readonly failures: string | null;
  }[];
  readonly runs: readonly {
    readonly task: string;
    readonly occurrence: number;
    readonly key: string;
    readonly cause: string;
    readonly status: string;
    readonly submissionId: string | null;
    readonly error: string | null;
  }[];
  /** Missed occurrences, by task. */
  readonly missed: Readonly<Record<string, number>>;
  readonly deliveries: readonly {
    readonly id: string;
    readonly submissionId: string | null;
    readonly kind: string;
    readonly state: string;
    readonly error: string | null;
  }[];
  readonly deadLetters: readonly { readonly id: string; readonly error: string }[];
  /** Ids of pending approvals. */
  readonly approvals: readonly string[];
  /** Workflows that the agent tracks, by id. */
  readonly workflows: Readonly<Record<string, string>>;
  /** Open work in the list for operators, as `kind id`. */
  readonly openWork: readonly string[];
  readonly messages: Readonly<Record<string, readonly Said[]>>;
  readonly alarm: number | null;
};

/** The tasks of every agent, and the interval between their occurrences. */
export const TASKS: Readonly<Record<string, number>> = { tick: 10_000, think: 20_000 };
/** The task that the driver pauses, triggers, skips and backfills. */
export const BEAT = "beat";

/** Signs webhooks in both directions. Not a real secret. */
export const HOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Conversations that the driver clears, and the verbs for that. */
export const CLEARS = { main: "clearMain", side: "clearSide" } as const;

/** Threads whose submissions are accepted one after the other. Each agent has one follower of the first. */
export const LANES = ["lane-0", "lane-1"] as const;
/** The thread whose turns are interrupted, rolled back and steered. */
export const BUSY = "busy";
/** Threads that are read at the end. */
export const THREADS = ["main", "side", BUSY, ...LANES] as const;

/** Agents that are cleared, reset, and crashed by their own tools and deliveries. They run no workflows. */
export function isDisturbed(agent: string): boolean {
  return agent.startsWith("d");
}

/** An agent two levels below its root. Its tasks and webhooks would be those of the root. */
export function isNested(agent: string): boolean {
  return agent.endsWith("-nested");
}

/** A plain Durable Object. */
export function isObject(agent: string): boolean {
  return agent.endsWith("-object");
}

/** The model says this before the calls of a tool, and again before its answer. */
export const FIRST = "I begin. ";

/** The answer that a submission must end with. */
export function expectedOutput({
  text,
  hasOutput,
  effects,
}: Pick<Ask, "text" | "hasOutput" | "effects">): unknown {
  if (hasOutput) return { said: text };
  return effects.length > 0 ? `${FIRST}${text}` : text;
}
