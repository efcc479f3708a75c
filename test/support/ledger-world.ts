/**
 * One object of the light host with turns that do what a plot says, and all
 * that can be seen of it from outside: its rows, its conversation, what the
 * app was told. What has to survive a crash is written beside the rows that
 * it is about, so that it commits and is lost together with them.
 */

import { runDurableObjectAlarm } from "cloudflare:test";
import { failureOf } from "../../src/core/failures.ts";
import { endWithAnswer, type Trace, type Turn, type TurnEnd } from "../../src/submissions/index.ts";
import type { SubmissionStatus } from "../../src/submissions/states.ts";
import { givenLedger } from "./given.ts";
import { again, jobOf, type Ledger, sleep, within } from "./ledger.ts";
import { type Ask, messageIds, type Plot } from "./ledger-model.ts";
import { births, type LedgerObject, ledgerOptions } from "./ledger-object.ts";

type SeenSubmission = {
  id: string;
  key: string | null;
  status: SubmissionStatus;
  attempts: number;
  dueAt: number | null;
  isAnswered: boolean;
  deferrals: number;
  resets: number;
};

/** All that can be seen at one moment. */
export type Sight = {
  readonly submissions: readonly SeenSubmission[];
  readonly conversation: readonly string[];
  readonly began: readonly string[];
  /** Each change of a status, as committed. */
  readonly history: readonly Step[];
  /** What the app was told in this life. */
  readonly events: readonly string[];
  readonly job: number | null;
  /** What the turn that runs is doing. */
  readonly turn: "none" | "busy" | "held";
};
type Step = { readonly id: string; before: SubmissionStatus; after: SubmissionStatus };

/** When a crash comes: at this write from now on, before or after it. */
export type CrashPoint = { readonly write: number; readonly when: "before" | "after" };

export class World {
  stub: Ledger = givenLedger();
  /** How often the turn of a submission has failed, which no crash undoes. */
  readonly failed = new Map<string, number>();
  /** Whether the crash that was ordered has come. */
  hasCrashed = false;
  #events: string[] = [];
  #turn: Sight["turn"] = "none";
  /** Lets the turn that is held go on. */
  #release: (() => void) | undefined;

  constructor(options: Parameters<(typeof ledgerOptions)["set"]>[1]) {
    const name = this.stub.name ?? "";
    ledgerOptions.set(name, options);
    births.set(name, (object, ctx) => this.#inhabit(object, ctx));
  }

  /** The first life begins. */
  async begin(): Promise<void> {
    await this.stub.list();
    await within(this.stub, (_, { storage }) =>
      storage.sql.exec(`CREATE TABLE began (id TEXT, attempt INTEGER);
        CREATE TABLE effects (id TEXT);
        CREATE TABLE history (id TEXT, before TEXT, after TEXT);
        CREATE TRIGGER history_of_status AFTER UPDATE OF status ON perdure_submissions
        BEGIN INSERT INTO history VALUES (NEW.submission_id, OLD.status, NEW.status); END`),
    );
  }

  /** Nothing of it is needed any more. */
  async end(): Promise<void> {
    const name = this.stub.name ?? "";
    await this.crash();
    births.delete(name);
    ledgerOptions.delete(name);
  }

  /** @param isKnown whether the key has a submission, which has an id of its own already */
  submit({ id, key, plot, maxAttempts, afterSideEffects, onConflict }: Ask, isKnown: boolean) {
    const text = JSON.stringify(plot);
    const messages = messageIds(id).map((messageId) => ({
      id: messageId,
      role: "user" as const,
      parts: [{ type: "text" as const, text }],
    }));
    return within(this.stub, async ({ submissions }) =>
      submissions
        .submit(messages, {
          ...(!isKnown && { submissionId: id }),
          ...(key !== undefined && { idempotencyKey: key }),
          onConflict,
          retry: { afterSideEffects, ...(maxAttempts !== undefined && { maxAttempts }) },
          ...(plot.answers && { answer: { schema: {} } }),
        })
        .catch((error: Error) => ({ refused: error.name })),
    );
  }

  cancel(id: string) {
    return within(this.stub, ({ submissions }) => submissions.cancel(id));
  }

  release(): Promise<void> {
    return within(this.stub, () => this.#release?.());
  }

  skipPending(): Promise<void> {
    return within(this.stub, async (object) => {
      await object.lifecycle.start();
      object.skipPending();
    });
  }

  /** Every job becomes due, and the alarm comes, if there is one. */
  async wake(): Promise<void> {
    await within(this.stub, (_, ctx) => {
      if (jobOf("perdure.submissions", ctx) === null) return;
      ctx.storage.sql.exec("UPDATE cf_agents_jobs SET time = ?", Date.now());
    });
    await runDurableObjectAlarm(this.stub);
  }

  /** The object dies; what it had committed stays. */
  async crash(): Promise<void> {
    await within(this.stub, async (_, ctx) => {
      await ctx.storage.sync();
      ctx.abort("crash");
    }).catch(() => {});
    this.nextLife();
  }

  nextLife(): void {
    this.stub = again(this.stub);
    this.hasCrashed = false;
  }

  /** The object dies at a write that is still to come. */
  crashAt({ write, when }: CrashPoint): Promise<void> {
    return within(this.stub, ({ meter }, ctx) => {
      meter.reset();
      meter[when === "before" ? "onWrite" : "onWritten"] = (now) => {
        if (now !== write) return;
        this.hasCrashed = true;
        ctx.abort("crash");
      };
    });
  }

  /** It does not, if it has not yet. */
  callOffCrash(): Promise<void> {
    return within(this.stub, ({ meter }) => {
      meter.onWrite = undefined;
      meter.onWritten = undefined;
    });
  }

  look(): Promise<Sight> {
    return within(this.stub, (_, ctx) => {
      const all = <T extends Record<string, SqlStorageValue>>(query: string) =>
        ctx.storage.sql.exec<T>(query).toArray();
      const submissions = all<Omit<SeenSubmission, "isAnswered"> & { isAnswered: number }>(
        `SELECT submission_id AS id, idempotency_key AS key, status, attempts, due_at AS dueAt,
           output IS NOT NULL AS isAnswered, resets,
           (SELECT COUNT(*) FROM perdure_attempts a WHERE a.seq = s.seq) AS deferrals
         FROM perdure_submissions s ORDER BY seq`,
      );
      return {
        submissions: submissions.map((row) => ({ ...row, isAnswered: row.isAnswered === 1 })),
        conversation: all<{ id: string }>("SELECT id FROM conversation ORDER BY rowid").map(
          ({ id }) => id,
        ),
        began: all<{ id: string; attempt: number }>("SELECT * FROM began ORDER BY rowid").map(
          ({ id, attempt }) => `${id}#${attempt}`,
        ),
        history: all<Step>("SELECT * FROM history ORDER BY rowid"),
        events: [...this.#events],
        job: jobOf("perdure.submissions", ctx),
        turn: this.#turn,
      };
    });
  }

  #inhabit({ turns, submissions }: LedgerObject, { storage }: DurableObjectState): void {
    const { sql } = storage;
    this.#events = [];
    this.#release = undefined;
    this.#turn = "none";
    turns.onStatus = async ({ submissionId, status }) => {
      this.#events.push(`${submissionId}:${status}`);
    };
    const trace = turns.trace.bind(turns);
    turns.trace = async (turn): Promise<Trace> => {
      const found = sql.exec("SELECT 1 FROM effects WHERE id = ?", turn.submissionId).toArray();
      return { ...(await trace(turn)), hasEffects: found.length > 0 };
    };
    turns.run = (turn) => {
      this.#turn = "busy";
      return this.#play(turn, submissions, sql).finally(() => {
        this.#turn = "none";
        this.#release = undefined;
      });
    };
  }

  async #play(
    { submissionId: id, messages, signal, begin, answer }: Turn,
    submissions: LedgerObject["submissions"],
    sql: SqlStorage,
  ): Promise<TurnEnd> {
    // A commit of its own for every phase, as a host that asks a model has.
    await sleep(0);
    const ref = begin();
    const plot = plotOf(messages);
    sql.exec("INSERT INTO began VALUES (?, ?)", id, ref.attempt);
    for (const said of messages) {
      sql.exec(
        "INSERT OR IGNORE INTO conversation (id, text, thread) VALUES (?, '', 'main')",
        said.id,
      );
    }
    if (plot.effects) sql.exec("INSERT INTO effects VALUES (?)", id);
    await sleep(0);
    const failed = this.failed.get(id) ?? 0;
    const isAnswered = plot.answers && failed >= plot.fails && submissions.answer(ref, { of: id });
    if (plot.holds) await this.#hold(plot.deaf ? undefined : signal);
    if (failed < plot.fails) {
      this.failed.set(id, failed + 1);
      const error = errorOf(plot);
      // A reset looks the same to whoever awaits the turn: it is thrown, and nothing is known.
      if (plot.failure === "reset" || !plot.effects) throw error;
      return { outcome: "error", failure: failureOf(error), cause: error, hasEffects: true };
    }
    const end = { outcome: "completed" } as const;
    return answer ? endWithAnswer(end, { isAnswered, problem: undefined }) : end;
  }

  #hold(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#turn = "held";
      this.#release = () => {
        this.#turn = "busy";
        resolve();
      };
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  }
}

function plotOf(messages: Turn["messages"]): Plot {
  const part = messages[0]?.parts[0];
  if (part?.type !== "text") throw new Error("A turn without a plot");
  return JSON.parse(part.text) as Plot;
}

function errorOf({ failure }: Plot): Error {
  if (failure === "reset") return new Error("Durable Object reset because its code was updated.");
  const statusCode = failure === "transient" ? 503 : 401;
  return Object.assign(new Error(failure), { statusCode });
}
