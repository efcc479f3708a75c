/**
 * The kinds of destinations: those of the files beside this one, and those that features install. To add one, write its file: a type,
 * a function that makes one, and its kind in `KINDS`, by the name that is stored. A feature calls `outbox.install()`, and has its type here.
 */

import * as z from "zod";
import { type Json, preview } from "../../core/json.ts";
import { readOptions } from "../../core/options/option-schemas.ts";
import { invalidMessage } from "../../core/options/options.ts";
import type { DeliveryPolicy } from "../delivery/policy.ts";
import { InvalidDestinationError } from "../errors.ts";
import type {
  Adapter,
  AdapterContext,
  AnyDestination,
  DestinationKind,
  WithPolicy,
} from "./adapter.ts";
import { KINDS } from "./kinds.generated.ts";
import type { StartWorkflow, WorkflowStart } from "./workflow-start.ts";

type Kinds = typeof KINDS;

/** An OpenTelemetry collector. `traces()` of `perdure/operator` installs the kind. */
export type OtlpDestination = WithPolicy & {
  readonly kind: "otlp";
  /** The base address: `/v1/traces` and `/v1/metrics` are added. */
  readonly url: string;
  /** The name of the secret with its headers, as in `OTEL_EXPORTER_OTLP_HEADERS`: `api-key=...,tenant=...`. */
  readonly headers?: string;
};

/** By kinds that a feature installs: the feature, and the entry that exports it. */
const REPLIES = ["replies", "perdure/replies"] as const;
const BY_FEATURE = {
  slack: REPLIES,
  discord: REPLIES,
  telegram: REPLIES,
  "github-comment": REPLIES,
  email: REPLIES,
} as const;
export const FEATURES: ReadonlyMap<unknown, readonly [feature: string, entry: string]> = new Map(
  Object.entries({ ...BY_FEATURE, otlp: ["traces", "perdure/operator"] as const }),
);

/** What a function of a feature returns, e.g. `slack()` of `perdure/replies`. */
type FeatureDestination = {
  readonly kind: keyof typeof BY_FEATURE;
  readonly policy?: DeliveryPolicy;
  readonly [field: string]: Json | DeliveryPolicy | undefined;
};

export type Destination =
  | z.input<Kinds[keyof Kinds]["schema"]>
  | FeatureDestination
  | OtlpDestination;

const NOT_FOR_EVENTS: readonly Destination["kind"][] = ["workflow", "workflow-start", "otlp"];

/** True of a destination that takes events of Perdure, e.g. alerts. */
export function takesEvents({ kind }: Destination): boolean {
  return !NOT_FOR_EVENTS.includes(kind);
}

/** An event as a destination takes it: programs get the event, people its text. */
export function messageFor<Event extends object>(
  { kind }: Destination,
  event: Event,
  { text, subject = text }: { readonly text: string; readonly subject?: string },
): Event | { readonly text: string; readonly subject?: string } {
  if (!Object.hasOwn(BY_FEATURE, kind)) return event;
  return kind === "email" ? { subject, text } : { text };
}

/** Of a destination as JSON, which is stored with each entry. */
const MAX_LENGTH = 16_384;

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

type Context = AdapterContext & {
  readonly startWorkflow?: StartWorkflow | undefined;
};

export class Destinations {
  readonly #adapters = new Map<string, Adapter>();
  readonly #schemas = new Map<string, z.ZodType>();
  /** All that this version of Perdure knows, installed or not. */
  readonly kinds: readonly unknown[] = [...Object.keys(KINDS), ...FEATURES.keys()];
  readonly host: object;

  constructor(private readonly context: Context) {
    this.host = context.host;
    this.install(KINDS);
  }

  install(
    kinds: Readonly<
      Record<
        string,
        Pick<DestinationKind, "schema"> & { connect(context: Context): Adapter<never> }
      >
    >,
  ): void {
    for (const [kind, { schema, connect }] of Object.entries(kinds)) {
      this.#schemas.set(kind, schema);
      this.#adapters.set(kind, connect(this.context) as Adapter);
    }
  }

  /** The kinds that deliveries can go to. */
  get installed(): readonly string[] {
    return [...this.#adapters.keys()];
  }

  /** What an app does so that a kind can be delivered to. */
  remedyOf(kind: string): string {
    const [feature, entry] = FEATURES.get(kind) ?? [];
    if (feature === undefined) return "Deploy a version of Perdure that has it";
    return `Add to the class: static override readonly features = [${feature}()], from ${JSON.stringify(entry)}`;
  }

  /** @throws Error for a kind that is not installed */
  adapterOf({ kind }: AnyDestination): Adapter {
    const adapter = this.#adapters.get(kind);
    if (adapter) return adapter;
    throw new Error(
      `No destination of the kind ${preview(kind)} is installed. ${this.remedyOf(kind)}.`,
    );
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

  /** What is wrong with a destination in every Worker, as a whole sentence; undefined for a valid one. */
  problemOfForm(destination: unknown, name = "destination"): string | undefined {
    try {
      this.check(destination, name);
      return undefined;
    } catch (error) {
      if (error instanceof InvalidDestinationError) return error.message;
      throw error;
    }
  }

  /** What is wrong with a destination as a whole sentence; undefined for a valid one. */
  problemOf(destination: unknown, name = "destination"): string | undefined {
    const form = this.problemOfForm(destination, name);
    if (form !== undefined) return form;
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
      const expected = `expected what a function such as webhook() or queue() returns. The kinds are ${this.kinds.join(", ")}`;
      throw new InvalidDestinationError(invalidMessage(name, preview(destination), expected));
    }
    const { kind } = destination as AnyDestination;
    const schema = this.#schemas.get(kind);
    if (!schema) {
      const expected = FEATURES.has(kind)
        ? `expected an installed kind. ${this.remedyOf(kind)}`
        : `expected one of ${this.kinds.join(", ")}`;
      throw new InvalidDestinationError(invalidMessage(`${name}.kind`, preview(kind), expected));
    }
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
