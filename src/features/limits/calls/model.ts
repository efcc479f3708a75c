/**
 * The model of a step, which reserves the worst case of each call before it is made, and gives back the difference afterwards.
 */

import { type LanguageModel, type LanguageModelMiddleware, wrapLanguageModel } from "ai";
import { responseOf } from "../../../core/failures.ts";
import { resolveModel } from "../../../core/models.ts";
import type { Held, Need, WorkLimit } from "../capacity.ts";
import type { LimitsSettings } from "../declared/declarations.ts";
import { costOf, mostCostOf, type PricedTokens } from "../declared/prices.ts";
import { DollarBudgetExceededError, PriceMissingError } from "../errors.ts";
import type { Amounts } from "../keeper/protocol.ts";
import { amountsFor, tokensFor, type Work } from "../work.ts";
import {
  type CallOptions,
  Estimates,
  type PromptSize,
  promptSizeOf,
  type Tokens,
} from "./estimates.ts";
import type { Headers } from "./headers.ts";
import { modelName } from "./names.ts";
import { Observations } from "./observations.ts";
import { Reservations, type ReservationUses } from "./reservations.ts";
import { usageOf, usedTokens } from "./usage.ts";

/** After so many refusals of one call in spite of everything, the provider's error is the call's. */
const MOST_REFUSALS = 3;

type Middleware = Required<Pick<LanguageModelMiddleware, "wrapGenerate" | "wrapStream">>;
type Generated = Awaited<ReturnType<Middleware["wrapGenerate"]>>;
type Streamed = Awaited<ReturnType<Middleware["wrapStream"]>>;
type Part = Streamed["stream"] extends ReadableStream<infer P> ? P : never;

export type Uses = ReservationUses & {
  readonly settings: LimitsSettings;
  /** What a work needs of the limits of a model. */
  readonly needsOf: (work: Work, model: string, amounts: Amounts) => Need[];
  /** The limits that concern a model. */
  readonly limitsOf: (work: Work, model: string) => readonly WorkLimit[];
  /** What the latest call has used, as a guess of the next one. */
  readonly onCalled: (model: string, tokens: Tokens) => void;
  /** A call of a work has begun or ended. */
  readonly onCalls: (work: Work) => void;
};

/** One call of the model, as far as its capacity is concerned. */
type Call = {
  readonly work: Work;
  readonly model: string;
  readonly held: readonly Held[];
  readonly size: PromptSize;
  readonly worst: Tokens;
  /** Nanodollars; undefined for a model without a price. */
  readonly worstCost: number | undefined;
  /** When the provider had the request for certain. */
  at: number | undefined;
  /** Whether the model has given any text, reasoning or tool call. */
  hasOutput: boolean;
  isSettled: boolean;
  readonly abandon: () => void;
};

export class ModelCalls {
  readonly #estimates: Estimates;
  readonly #observations: Observations;
  readonly #reservations: Reservations;

  constructor(private readonly uses: Uses) {
    this.#estimates = new Estimates(uses.settings.maxOutputTokens);
    this.#observations = new Observations(uses.capacity, uses.clock);
    this.#reservations = new Reservations(uses);
  }

  /** The model itself where nothing has to be asked or counted. */
  wrap(work: Work, model: LanguageModel): LanguageModel {
    const name = modelName(model);
    const { settings, limitsOf } = this.uses;
    const isPriced = costOf(settings.prices, name, { input: 0, output: 0 }) !== undefined;
    const isLimited = work.budget !== undefined || limitsOf(work, name).length > 0;
    if (!isPriced && !isLimited) return model;
    const middleware: LanguageModelMiddleware = {
      specificationVersion: "v4",
      wrapGenerate: ({ doGenerate, params }) =>
        this.#run(work, name, params, async (call) => {
          const result = await doGenerate();
          this.#answered(call, result.response?.headers);
          call.hasOutput = result.content.length > 0;
          this.#ended(call, result.usage);
          return result;
        }),
      wrapStream: ({ doStream, params }) =>
        this.#run(work, name, params, async (call) => {
          const result = await doStream();
          this.#answered(call, result.response?.headers);
          return { ...result, stream: this.#watched(result.stream, call) };
        }),
    };
    return wrapLanguageModel({ model: resolveModel(model), middleware });
  }

  /** A refusal of the provider in spite of all is waited for as the keeper says. */
  async #run<T extends Generated | Streamed>(
    work: Work,
    model: string,
    params: CallOptions,
    make: (call: Call) => Promise<T>,
  ): Promise<T> {
    for (let refusals = 1; ; refusals++) {
      const call = await this.#begin(work, model, params);
      try {
        return await make(call);
      } catch (error) {
        const isRefused = await this.#failed(call, error);
        if (isRefused && refusals < MOST_REFUSALS && !params.abortSignal?.aborted) continue;
        // The AI SDK's own retries would repeat all of these.
        if (isRefused && error instanceof Error)
          Reflect.defineProperty(error, "isRetryable", { value: false });
        throw error;
      }
    }
  }

  /** Reserves the worst case. */
  async #begin(work: Work, model: string, params: CallOptions): Promise<Call> {
    const { settings, needsOf, capacity } = this.uses;
    const size = promptSizeOf(params);
    const worst = {
      input: this.#estimates.input(model, size),
      output: this.#estimates.output(params),
    };
    const worstCost = mostCostOf(settings.prices, model, worst);
    this.#checkBudget(work, model, worstCost);
    const tokens = worst.input + worst.output;
    const nanodollars = worstCost ?? 0;
    // What was reserved at the admission was a guess.
    this.#endGuess(work);
    const needs = needsOf(work, model, { requests: 1, tokens, nanodollars, slots: 1 });
    const unpriced = worstCost === undefined && needs.find(({ limit }) => limit.rules.nanodollars);
    if (unpriced)
      throw new PriceMissingError(model, `The limit ${JSON.stringify(unpriced.limit.name)}`);
    work.reserved += nanodollars;
    let held: Held[];
    try {
      held = await this.#reservations.reserve(work, needs, params.abortSignal);
    } catch (error) {
      work.reserved -= nanodollars;
      throw error;
    }
    const call: Call = {
      ...{
        work,
        model,
        held,
        size,
        worst,
        worstCost,
        at: undefined,
        hasOutput: false,
        isSettled: false,
      },
      abandon: () => this.#charge(call),
    };
    if (work.isOver) {
      // It was cancelled meanwhile. The call is made, and fails by its signal.
      for (const one of held) capacity.settle(one, {});
      work.reserved -= nanodollars;
      call.isSettled = true;
    } else work.calls.add(call.abandon);
    this.uses.onCalls(work);
    return call;
  }

  #endGuess(work: Work): void {
    for (const [name, held] of work.held) {
      if (!held.need.limit.declared) continue;
      this.uses.capacity.settle(held, {});
      work.held.delete(name);
    }
  }

  #checkBudget({ budget, spent, reserved }: Work, model: string, cost: number | undefined): void {
    if (budget === undefined) return;
    if (cost === undefined) throw new PriceMissingError(model, "budget.usd of the submission");
    if (spent + reserved + cost <= budget) return;
    throw new DollarBudgetExceededError(spent / 1e9, budget / 1e9, cost / 1e9);
  }

  #answered(call: Call, headers: Headers | undefined): void {
    call.at ??= this.uses.clock.now();
    call.work.hasBegun = true;
    this.#observations.add(call.held, { headers });
  }

  /** The call has ended, with the usage that the model reports. */
  #ended(call: Call, reported: unknown): void {
    const { model, size, worst } = call;
    const usage = usageOf(reported);
    if (usage.input) this.#estimates.learn(model, size, usage.input);
    const tokens = usedTokens(usage, worst, call.hasOutput);
    const cost = costOf(this.uses.settings.prices, model, tokens);
    call.work.since = undefined;
    this.uses.onCalled(model, { input: tokens.input, output: worst.output });
    this.#settle(call, tokens, cost);
  }

  /** Its use is not known: the worst case is charged. */
  #charge(call: Call): void {
    call.at ??= this.uses.clock.now();
    this.#settle(call, call.worst, call.worstCost);
  }

  #settle(call: Call, tokens: PricedTokens, cost: number | undefined, requests = 1): void {
    if (call.isSettled) return;
    call.isSettled = true;
    const { work, held, model, worstCost = 0 } = call;
    work.calls.delete(call.abandon);
    work.reserved -= worstCost;
    if (cost !== undefined) {
      work.spent += cost;
      work.cost = (work.cost ?? 0) + cost;
    }
    const at = call.at ?? this.uses.clock.now();
    for (const one of held) {
      const { limit } = one.need;
      const used = {
        ...{ requests, slots: requests, nanodollars: cost ?? 0 },
        tokens: tokensFor(limit, model, tokens),
      };
      this.uses.capacity.settle(one, amountsFor(limit.rules, used), at);
    }
    this.uses.onCalls(work);
  }

  /** @returns whether the provider has refused it, and the keepers know: then the call is tried again */
  async #failed(call: Call, error: unknown): Promise<boolean> {
    const response = responseOf(error);
    const { status } = response;
    // Providers charge for no answer that is an error, but count the request.
    if (status !== undefined && status >= 400) this.#settle(call, NOTHING, undefined);
    else if (LOCAL.has((error as Partial<Error> | undefined)?.name ?? ""))
      this.#settle(call, NOTHING, undefined, 0);
    else this.#charge(call);
    return this.#observations.add(call.held, response);
  }

  /** The stream, which settles the call by its finish, or by the worst case where it has none. */
  #watched(stream: ReadableStream<Part>, call: Call): ReadableStream<Part> {
    const reader = stream.getReader();
    return new ReadableStream<Part>(
      {
        pull: async (controller) => {
          try {
            const { done, value } = await reader.read();
            call.hasOutput ||= value !== undefined && OUTPUT.has(value.type);
            if (value?.type === "finish") this.#ended(call, value.usage);
            if (value?.type === "error")
              await this.#observations.add(call.held, responseOf(value.error));
            if (!done) controller.enqueue(value);
            else {
              this.#charge(call);
              controller.close();
            }
          } catch (error) {
            this.#charge(call);
            controller.error(error);
          }
        },
        cancel: (reason) => {
          this.#charge(call);
          return reader.cancel(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }
}

const NOTHING: Tokens = { input: 0, output: 0 };
const OUTPUT: ReadonlySet<Part["type"]> = new Set(["text-delta", "reasoning-delta", "tool-call"]);

/** Thrown before a request is sent. */
const LOCAL: ReadonlySet<string> = new Set([
  "AI_InvalidArgumentError",
  "AI_InvalidPromptError",
  "AI_LoadAPIKeyError",
  "AI_LoadSettingError",
  "AI_NoSuchModelError",
  "AI_UnsupportedFunctionalityError",
]);
