/**
 * Turns beside a conversation on a plain Durable Object, with a scripted model
 * and a ledger that only records its calls. No Think.
 */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Sessions } from "agents/sessions";
import { type ToolSet, tool, type UIMessage } from "ai";
import { z } from "zod";
import type { TurnLedger } from "../../../src/hosts/sdk/attempt.ts";
import { SdkTurns } from "../../../src/hosts/sdk/sdk-turns.ts";
import type { TurnRequest, TurnSetup } from "../../../src/hosts/sdk/turn-source.ts";
import type { SubmittedTurn, Turn, TurnEnd } from "../../../src/submissions/host.ts";
import type { AnswerSpec } from "../../../src/submissions/submit-options.ts";
import { attemptPlanOf, type PriorAttempt } from "../../../src/submissions/turns/next-attempt.ts";
import type { TokenUsage } from "../../../src/submissions/types.ts";
import { HeldModel } from "../../support/held-model.ts";

/** Keeps a log of all that a turn says, and answers as a test wants it. */
class NotingLedger implements TurnLedger {
  readonly limiter = {};
  readonly log: string[] = [];
  readonly usage: TokenUsage[] = [];
  /** Messages that join, by the number of the step from 0. */
  joining: Record<number, UIMessage[]> = {};
  /** The step from which on there are no tokens left. */
  budgetEndsAt = Number.POSITIVE_INFINITY;
  answers: unknown[] = [];
  #steps = 0;

  nextStep(): UIMessage[] {
    const step = this.#steps++;
    this.log.push(`step ${step}`);
    if (step >= this.budgetEndsAt) throw new BudgetExceededError("No tokens left");
    return this.joining[step] ?? [];
  }
  detachJoined(): void {
    this.log.push("detachJoined");
  }
  readonly budgets = { reserveTokens(): void {}, finished(): void {} };
  recordUsage(_ref: unknown, usage: TokenUsage): void {
    this.usage.push(usage);
    this.log.push("spent");
  }
  toolCalls() {
    return {
      note: async () => undefined,
      recordedIds: async () => new Set<string>(),
      start: async () => {
        this.log.push("acts");
        return { action: "run", end: () => undefined } as const;
      },
    };
  }
  busy(): void {}

  heartbeat(): void {
    this.log.push("alive");
  }
  answer(_ref: unknown, output: unknown): boolean {
    this.answers.push(output);
    return true;
  }
}

class BudgetExceededError extends Error {
  override readonly name = "BudgetExceededError";
}

export type GivenTurn = Omit<Partial<Turn>, "messages"> & {
  messages: UIMessage[];
  /** The answer that is asked for, and the attempts that have failed so far. */
  answer?: AnswerSpec;
  priors?: PriorAttempt[];
  joining?: Record<number, UIMessage[]>;
  budgetEndsAt?: number;
  attempt?: number;
};

export class SdkObject extends DurableObject<Cloudflare.Env> {
  readonly sessions = new Sessions();
  readonly lifecycle = Lifecycle.install(this).use(this.sessions);
  ledger = new NotingLedger();
  readonly model = new HeldModel();
  /** What the agent lends in place of what it has. */
  lent: Partial<TurnSetup> = {};
  maxThreadMessages = Number.POSITIVE_INFINITY;
  readonly turns = new SdkTurns({
    source: (request) => this.#setup(request),
    sessions: this.sessions,
    ledger: () => this.ledger,
    maxThreadMessages: () => this.maxThreadMessages,
  });

  async #setup({ messagesFor }: TurnRequest): Promise<TurnSetup> {
    const tools = { ...this.#tools(), ...this.lent.tools };
    return {
      model: this.model,
      instructions: "Do as you are told.",
      messages: await messagesFor(tools),
      maxSteps: 5,
      ...this.lent,
      tools,
    };
  }

  #tools(): ToolSet {
    const note = (text: string) => this.ledger.log.push(text);
    const inputSchema = z.object({});
    return {
      charge: tool({
        inputSchema,
        execute: async () => {
          note("charged");
          return "charged";
        },
      }),
      count: tool({
        inputSchema,
        async *execute() {
          yield 1;
          yield 2;
        },
      }),
      breaks: tool({
        inputSchema,
        execute: async (): Promise<string> => {
          throw new Error("The tool is broken");
        },
      }),
      approved: tool({ inputSchema, needsApproval: true, execute: async () => note("approved") }),
      client: tool({ inputSchema, outputSchema: z.string() }),
    };
  }

  /** Runs a turn with a fresh ledger, which `ledger` is from then on. */
  async run({
    joining,
    budgetEndsAt,
    answer,
    priors = [],
    attempt = priors.length + 1,
    ...given
  }: GivenTurn): Promise<TurnEnd> {
    this.ledger = new NotingLedger();
    if (joining) this.ledger.joining = joining;
    if (budgetEndsAt !== undefined) this.ledger.budgetEndsAt = budgetEndsAt;
    return this.turns.run({
      submissionId: "sub",
      thread: "support",
      channel: undefined,
      plan: attemptPlanOf(answer, priors),
      signal: new AbortController().signal,
      announced: async () => {},
      isAgain: attempt > 1,
      begin: () => {
        this.ledger.log.push("begin");
        return { seq: 1, attempt };
      },
      isGivenUp: false,
      ...given,
    });
  }

  inspectConversation(turn: SubmittedTurn) {
    return this.turns.inspectConversation(turn);
  }

  removeMessages(turn: SubmittedTurn) {
    return this.turns.removeMessages(turn);
  }

  /** `role: text` of each message of a thread; parts that are no text by their type. */
  async texts(thread = "support"): Promise<string[]> {
    const messages = await this.turns.threads.messages(thread);
    return messages.map(({ role, parts }) => {
      const said = parts.filter(({ type }) => type !== "step-start");
      return `${role}: ${said.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("")}`;
    });
  }

  /** Rows in all tables of the object. */
  rows(): number {
    const { sql } = this.ctx.storage;
    const tables = sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'",
      )
      .toArray();
    return tables
      .map(({ name }) => sql.exec<{ n: number }>(`SELECT count(*) AS n FROM "${name}"`).one().n)
      .reduce((sum, n) => sum + n, 0);
  }
}
