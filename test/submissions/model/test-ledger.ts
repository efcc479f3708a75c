/**
 * One object of the light host with turns that do what a plot says, and all
 * that can be seen of it from outside: its rows, its conversation, what the
 * app was told. What has to survive a crash is written beside the rows that
 * it is about, so that it commits and is lost together with them.
 */

import { runDurableObjectAlarm } from "cloudflare:test";
import type { Turn } from "../../../src/submissions/index.ts";
import type { SubmissionStatus } from "../../../src/submissions/states.ts";
import { givenLedger } from "../../support/given.ts";
import {
  again,
  forever,
  jobOf,
  type Ledger,
  notByItself,
  sleep,
  within,
} from "../../support/ledger.ts";
import { births, type LedgerObject, ledgerOptions, time } from "../../support/ledger-object.ts";
import { type Ask, idOf, messageIds, type Plot, type Rules, replyId } from "./entries.ts";
import { plotOf, Stage } from "./held-turns.ts";

const RETRY = ":retry";
/** How long a status hook is waited for, and how long a slow one takes. */
const HOOK_TIMEOUT_MS = 20;
const SLOW_HOOK_MS = 2;

type SeenSubmission = {
  id: string;
  key: string | null;
  status: SubmissionStatus;
  attempts: number;
  dueAt: number | null;
  notBefore: number | null;
  expiresAt: number | null;
  /** Until when repetitions are gathered in it. */
  gathersUntil: number | null;
  mergedInto: string | null;
  isToBeUndone: boolean;
  isAnswered: boolean;
  deferrals: number;
  resets: number;
  messages: readonly string[];
  plot: Plot;
};
type Flags = "isToBeUndone" | "isAnswered";
type SeenRow = Omit<SeenSubmission, Flags | "messages" | "plot"> &
  Record<Flags, number> & { messages: string; retriedBy: string | null };

/** All that can be seen at one moment. */
export type Sight = {
  readonly submissions: readonly SeenSubmission[];
  readonly conversation: readonly string[];
  readonly began: readonly string[];
  /** Those that have joined the turn of another, once for each time. */
  readonly joined: readonly string[];
  /** Each change of a status, as committed. */
  readonly history: readonly Change[];
  /** What the app was told in this life. */
  readonly events: readonly string[];
  readonly job: number | null;
  /** The attempts whose turns are held, the longest held first. */
  readonly held: readonly string[];
  /** How many turns are being played. */
  readonly playing: number;
  /** Turns that ran side by side, and must not have (L4). */
  readonly breaches: readonly string[];
};
type Change = { readonly id: string; before: SubmissionStatus; after: SubmissionStatus };

/** When a crash comes: at this write from now on, before or after it. */
export type CrashPoint = { readonly write: number; readonly when: "before" | "after" };

export class World {
  stub: Ledger = givenLedger();
  /** How often the turn of a submission has failed, which no crash undoes. */
  readonly failed = new Map<string, number>();
  /** Whether the crash that was ordered has come. */
  hasCrashed = false;
  #events: { readonly id: string; readonly status: SubmissionStatus }[] = [];
  /** The calls of the hook that have not returned, of this life. */
  readonly #telling = new Set<string>();
  /** Of this life, if it has begun. */
  #stage: Stage | undefined;
  /** What the ledger calls those that chose no id, by the messages that they came with. */
  readonly #names = new Map<string, string>();

  constructor(private readonly rules: Rules) {
    const name = this.stub.name ?? "";
    const { maxPending, maxConcurrentTurns, maxAttempts, delayMs } = rules;
    ledgerOptions.set(name, {
      maxPending,
      maxConcurrentTurns,
      onProblem: () => {},
      retry: { maxAttempts, baseDelay: delayMs(1) * 2, maxDelay: 3_600_000 },
      // A held turn is silent for as long as the sequence likes.
      stallTimeout: "365 days",
      // And so is its answer held: none is written by itself at a moment that only a clock knows.
      holdAnswer: Number.POSITIVE_INFINITY,
      statusHookTimeout: HOOK_TIMEOUT_MS,
    });
    births.set(name, (object, ctx) => this.#inhabit(object, ctx));
  }

  /** The first life begins. */
  async begin(): Promise<void> {
    await this.stub.list();
    await within(this.stub, (_, { storage }) =>
      storage.sql.exec(`CREATE TABLE began (id TEXT, attempt INTEGER);
        CREATE TABLE joined (id TEXT);
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
  submit(ask: Ask, isKnown: boolean): Promise<object> {
    const { id, key, plot, thread, priority, whenBusy, maxAttempts, afterSideEffects } = ask;
    const { delayMs, expiresMs, debounce, onConflict } = ask;
    const text = JSON.stringify(plot);
    const messages = messageIds(id).map((messageId) => ({
      id: messageId,
      role: "user" as const,
      parts: [{ type: "text" as const, text }],
    }));
    const { delayMs: delay, maxDelayMs: maxDelay } = this.rules.debounce;
    return within(this.stub, async ({ submissions }) => {
      // What asks for an answer is no submission of the app.
      const verb = plot.answers ? "accept" : "submit";
      return submissions[verb](messages, {
        ...(!isKnown && debounce === undefined && { submissionId: id }),
        ...(key !== undefined && { idempotencyKey: key }),
        ...(delayMs !== undefined && {
          notBefore: new Date(Date.now() + time.aheadMs + delayMs),
        }),
        ...(expiresMs !== undefined && { expiresIn: expiresMs }),
        ...(debounce !== undefined && { debounce: { key: debounce, delay, maxDelay } }),
        thread,
        priority,
        whenBusy,
        onConflict,
        retry: { afterSideEffects, ...(maxAttempts !== undefined && { maxAttempts }) },
        ...(plot.answers && { answer: { schema: {} } }),
      })
        .then((told) => this.#toldOf(this.#named(told, id), verb === "submit"))
        .catch((error: Error) => ({ refused: error.name }));
    });
  }

  retry(id: string): Promise<object | null> {
    return within(this.stub, ({ submissions }) =>
      submissions.retry(this.#realName(id)).then((told) => {
        const isNew = told?.accepted || told?.submissionId !== this.#realName(id);
        return told && this.#toldOf(this.#named(told, isNew ? `${id}${RETRY}` : id), true);
      }),
    );
  }

  delete(id: string): Promise<boolean> {
    return within(this.stub, ({ submissions }) => submissions.delete(this.#realName(id)));
  }

  cancel(id: string): Promise<object> {
    return within(this.stub, ({ submissions }) =>
      submissions
        .cancel(this.#realName(id))
        .then((told) => this.#toldOf(this.#named(told, id), true)),
    );
  }

  /** The nth of the turns that are held goes on. */
  release(nth: number): Promise<void> {
    return within(this.stub, () => this.#stage?.release(nth));
  }

  reset(): Promise<void> {
    return within(this.stub, async (object) => {
      await object.lifecycle.start();
      object.reset();
    });
  }

  /** Every job becomes due, and the alarm comes, if there is one. */
  async wake(): Promise<void> {
    await within(this.stub, (_, ctx) => {
      if (jobOf("perdure.submissions", ctx) === null) return;
      ctx.storage.sql.exec("UPDATE cf_agents_jobs SET time = ?", Date.now());
    });
    try {
      await runDurableObjectAlarm(this.stub);
    } catch (error) {
      const now = Date.now() + time.aheadMs;
      await within(again(this.stub), (_, ctx) => notByItself(ctx, now));
      throw error;
    }
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
      const rows = all<SeenRow>(
        `SELECT submission_id AS id, idempotency_key AS key, status, attempts, due_at AS dueAt, not_before AS notBefore,
           expires_at AS expiresAt, iif(debounce_key IS NULL, NULL, debounce_until) AS gathersUntil,
           merged_into AS mergedInto, rollback_state IS 'pending' AS isToBeUndone, output IS NOT NULL AS isAnswered, resets, messages,
           retried_by AS retriedBy,
           (SELECT COUNT(*) FROM perdure_attempts a WHERE a.seq = s.seq) AS deferrals
         FROM perdure_submissions s ORDER BY seq`,
      );
      const submissions = rows.map((row) => this.#seen(row));
      const names = (query: string) => all<{ id: string }>(query).map(({ id }) => id);
      return {
        submissions,
        conversation: names("SELECT thread || '/' || id AS id FROM conversation ORDER BY rowid"),
        joined: names("SELECT id FROM joined"),
        began: all<{ id: string; attempt: number }>("SELECT * FROM began ORDER BY rowid").map(
          ({ id, attempt }) => `${id}#${attempt}`,
        ),
        history: all<Change>("SELECT * FROM history ORDER BY rowid").map((change) => ({
          ...change,
          id: this.#name(change.id),
        })),
        events: this.#events.map(({ id, status }) => `${this.#name(id)}:${status}`),
        job: jobOf("perdure.submissions", ctx),
        held: this.#stage?.held ?? [],
        playing: this.#stage?.playing ?? 0,
        breaches: this.#stage?.breaches ?? [],
      };
    });
  }

  /** A row in the words of the model. */
  #seen({ messages, retriedBy, ...row }: SeenRow): SeenSubmission {
    const read = JSON.parse(messages) as Turn["messages"];
    const [first] = read;
    // The first look at it comes before any repetition.
    this.#learn(row.id, idOf(first?.id ?? ""));
    // It has the same messages, and comes after this one.
    if (retriedBy !== null) this.#learn(retriedBy, `${this.#name(row.id)}${RETRY}`);
    return {
      ...row,
      id: this.#name(row.id),
      mergedInto: row.mergedInto === null ? null : this.#name(row.mergedInto),
      isToBeUndone: row.isToBeUndone === 1,
      isAnswered: row.isAnswered === 1,
      messages: read.map(({ id }) => id),
      plot: plotOf(read),
    };
  }

  /** One that chose no id is called by the messages that it came with. */
  #learn(realName: string, otherwise: string): void {
    if (!this.#names.has(realName))
      this.#names.set(realName, /^s\d/.test(realName) ? realName : otherwise);
  }

  #name(realName: string): string {
    return this.#names.get(realName) ?? realName;
  }

  #realName(name: string): string {
    const [realName] = [...this.#names].find(([, known]) => known === name) ?? [name];
    return realName;
  }

  /** What the caller is told, in the words of the model. */
  #named<T extends { submissionId: string }>(told: T, id: string): T {
    const { submissionId } = told;
    this.#learn(submissionId, id);
    return { ...told, submissionId: this.#name(submissionId) };
  }

  /** L1 L5 Whoever is told that it was accepted or cancelled is so after the app. */
  #toldOf<T extends { submissionId: string }>(told: T, isPublic: boolean): T {
    const { accepted, outcome } = told as { accepted?: boolean; outcome?: string };
    const isChanged = isPublic && (accepted || outcome === "cancelled");
    if (isChanged && this.#isTelling(told.submissionId, accepted ? "pending" : "aborted")) {
      throw new Error(`The hook runs for ${told.submissionId} when its caller goes on`);
    }
    return told;
  }

  #isTelling(name: string, status: SubmissionStatus): boolean {
    return this.#telling.has(`${name}:${status}`);
  }

  /** The name of one that nobody has looked at so far, which may be made of another. */
  #nameIn(realName: string, sql: SqlStorage): string {
    const query = "SELECT submission_id AS id FROM perdure_submissions WHERE retried_by = ?";
    const [old] = sql.exec<{ id: string }>(query, realName).toArray();
    if (old) this.#learn(realName, `${this.#nameIn(old.id, sql)}${RETRY}`);
    return this.#name(realName);
  }

  #plotOf(submissionId: string, sql: SqlStorage): Plot {
    const query = "SELECT messages FROM perdure_submissions WHERE submission_id = ?";
    const [row] = sql.exec<{ messages: string }>(query, submissionId).toArray();
    return plotOf(JSON.parse(row?.messages ?? "[]") as Turn["messages"]);
  }

  #inhabit({ turns, submissions }: LedgerObject, { storage }: DurableObjectState): void {
    const { sql } = storage;
    this.#events = [];
    const owner = {
      rules: this.rules,
      failed: this.failed,
      nameOf: (id: string) => this.#nameIn(id, sql),
      isTelling: (name: string) => this.#isTelling(name, "running"),
    };
    const stage = new Stage(owner, submissions, sql);
    this.#stage = stage;
    turns.run = (turn) => stage.run(turn);
    this.#telling.clear();
    turns.onStatus = async ({ submissionId, status }) => {
      this.#events.push({ id: submissionId, status });
      const { hook } = this.#plotOf(submissionId, sql);
      if (hook === "hangs") return forever();
      const call = `${this.#nameIn(submissionId, sql)}:${status}`;
      this.#telling.add(call);
      if (hook === "slow") await sleep(SLOW_HOOK_MS);
      this.#telling.delete(call);
    };
    turns.removeMessages = async ({ submissionId, messages }) => {
      const gone = [...messages.map(({ id }) => id), replyId(this.#nameIn(submissionId, sql))];
      for (const id of gone) sql.exec("DELETE FROM conversation WHERE id = ?", id);
    };
  }
}
