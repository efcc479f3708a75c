/**
 * All kinds of destinations. To add one, write its file (a type, a function that makes one, and its kind) and add the kind
 * to the list.
 */

import * as z from "zod";
import { type Json, preview } from "../../core/json.ts";
import { readOptions } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { InvalidDestinationError } from "../errors.ts";
import type { Adapter, AdapterContext, AnyDestination } from "./adapter.ts";
import { agents } from "./agent.ts";
import { methods } from "./method.ts";
import { otlpCollectors, type TelemetryOf } from "./otlp.ts";
import { queues } from "./queue.ts";
import { discordMessages } from "./replies/discord.ts";
import { emails } from "./replies/email.ts";
import { githubComments } from "./replies/github-comment.ts";
import { slackMessages } from "./replies/slack.ts";
import { telegramMessages } from "./replies/telegram.ts";
import { webhooks } from "./webhook.ts";
import { workflowEvents } from "./workflow-event.ts";
import { type StartWorkflow, type WorkflowStart, workflowStarts } from "./workflow-start.ts";

/** By the kind of a stored destination, how it is delivered to. `workflowEvent()` stores "workflow", `workflow()` "workflow-start". */
const KINDS = {
  workflow: workflowEvents,
  "workflow-start": workflowStarts,
  webhook: webhooks,
  queue: queues,
  method: methods,
  agent: agents,
  slack: slackMessages,
  discord: discordMessages,
  telegram: telegramMessages,
  "github-comment": githubComments,
  email: emails,
  otlp: otlpCollectors,
};

type Kinds = typeof KINDS;
type DestinationOf<Kind extends keyof Kinds> = z.input<Kinds[Kind]["schema"]>;

export type Destination = { [Kind in keyof Kinds]: DestinationOf<Kind> }[keyof Kinds];

/** Replaces parts of how a kind of destination is delivered to, e.g. in a test. */
export type AdapterOverrides = {
  readonly [Kind in keyof Kinds]?: Partial<Adapter<DestinationOf<Kind>>>;
};

/** Of a destination as JSON, which is stored with each entry. */
const MAX_LENGTH = 16_384;
const EXPECTED =
  "expected what webhook(), queue(), method(), agent(), workflow(), workflowEvent(), slack(), discord(), telegram(), githubComment(), email() or otlp() returns";

/** Fields of destinations that are secrets. They are stored, because a delivery needs them, and never shown. */
const SECRETS = { proof: undefined, responseUrl: "(hidden)", interaction: "(hidden)" };

/** A stored destination as lists and hooks show it. */
export function withoutSecrets(destination: Destination): Destination {
  const fields = Object.entries(destination).map(([name, value]) => [
    name,
    Object.hasOwn(SECRETS, name) ? SECRETS[name as keyof typeof SECRETS] : value,
  ]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined)) as Destination;
}

export class Destinations {
  readonly #adapters: ReadonlyMap<string, Adapter>;
  readonly host: object;
  readonly kinds: readonly string[] = Object.keys(KINDS);

  constructor(
    context: AdapterContext & {
      readonly startWorkflow?: StartWorkflow | undefined;
      readonly telemetryOf?: TelemetryOf | undefined;
    },
    overrides: AdapterOverrides = {},
  ) {
    this.host = context.host;
    this.#adapters = new Map(
      Object.entries(KINDS).map(([kind, { connect }]) => {
        const override = overrides[kind as keyof Kinds];
        return [kind, { ...connect(context), ...override } as Adapter];
      }),
    );
  }

  /** @throws Error for an unknown kind, which a newer version of Perdure may have stored */
  adapterOf({ kind }: AnyDestination): Adapter {
    const adapter = this.#adapters.get(kind);
    if (adapter) return adapter;
    throw new Error(`This version of Perdure knows no destination of the kind ${preview(kind)}`);
  }

  /** Entries with the same key are delivered one after the other. Of an unknown kind it is the kind. */
  keyOf(destination: AnyDestination): string {
    return this.#adapters.get(destination.kind)?.keyOf(destination) ?? String(destination.kind);
  }

  /**
   * What is wrong with an event for this destination, as a sentence; undefined for a valid one.
   *
   * @param payload the event as JSON
   */
  problemOfEvent(destination: AnyDestination, payload: string): string | undefined {
    const adapter = this.adapterOf(destination);
    return adapter.problemOfEvent?.(JSON.parse(payload) as Json);
  }

  /** See `repeatableMs` of the {@link Adapter}. */
  repeatableMsOf({ kind }: AnyDestination): number {
    return this.#adapters.get(kind)?.repeatableMs ?? Number.POSITIVE_INFINITY;
  }

  isTelemetry({ kind }: AnyDestination): boolean {
    return this.#adapters.get(kind)?.isTelemetry === true;
  }

  /** The destination in a few words, for a log. */
  labelOf(destination: AnyDestination): string {
    return this.#adapters.get(destination.kind)?.labelOf(destination) ?? "";
  }

  /** What is wrong with a destination as a whole sentence; undefined for a valid one. */
  problemOf(destination: unknown, name = "destination"): string | undefined {
    try {
      this.check(destination, name);
    } catch (error) {
      if (error instanceof InvalidDestinationError) return error.message;
      throw error;
    }
    const to = destination as AnyDestination;
    const problem = this.adapterOf(to).problemOf(to);
    if (problem) {
      return invalidMessage(`${name}.${problem.field}`, problem.given, problem.expected);
    }
    // Each field has a limit; this limits them together.
    const { length } = JSON.stringify(to);
    if (length <= MAX_LENGTH) return undefined;
    const expected = `expected at most ${MAX_LENGTH} characters as JSON. Use shorter names`;
    return invalidMessage(name, `of ${length} characters`, expected);
  }

  /** @throws InvalidDestinationError for a destination that is invalid in every Worker */
  check(destination: unknown, name = "destination"): asserts destination is Destination {
    if (typeof destination !== "object" || destination === null) {
      throw new InvalidDestinationError(invalidMessage(name, preview(destination), EXPECTED));
    }
    const { kind } = destination as AnyDestination;
    if (typeof kind !== "string" || !Object.hasOwn(KINDS, kind)) {
      const expected = `expected one of ${this.kinds.join(", ")}`;
      throw new InvalidDestinationError(invalidMessage(`${name}.kind`, preview(kind), expected));
    }
    const schema: z.ZodType = KINDS[kind as keyof Kinds].schema;
    const invalid = (_: string, message: string) => new InvalidDestinationError(message);
    try {
      readOptions(schema, destination, name, invalid);
    } catch {
      // Read again as part of an object, so that the message has the whole path, e.g. `notify[0].url`.
      readOptions(z.object({ [name]: schema }), { [name]: destination }, name, invalid);
    }
  }
}

export function isStart(to: AnyDestination | WorkflowStart): to is WorkflowStart {
  return typeof to === "object" && to !== null && "destination" in to;
}
