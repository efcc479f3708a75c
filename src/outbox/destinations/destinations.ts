/** All kinds of destinations behind one interface: the one place that lists them. */

import { preview } from "../../core/json.ts";
import { isWellFormedText } from "../../core/text.ts";
import { problemOfPolicy } from "../delivery/policy.ts";
import type { Adapter, Destination, StartWorkflow } from "../types.ts";
import { agentAdapter } from "./agent.ts";
import { methodAdapter } from "./method.ts";
import { queueAdapter } from "./queue.ts";
import { webhookAdapter } from "./webhook.ts";
import { workflowAdapter } from "./workflow-event.ts";
import { workflowStartAdapter } from "./workflow-start.ts";

/** Of a destination as JSON, which is stored with each entry. */
const MAX_LENGTH = 16_384;

type Kind = Destination["kind"];
type All = { readonly [K in Kind]: Adapter<Extract<Destination, { kind: K }>> };

/** What a destination says, beside its kind and its policy. */
const FIELDS: Readonly<Record<Kind, readonly string[]>> = {
  workflow: ["workflow", "instance", "eventType", "proof"],
  "workflow-start": ["workflow", "instance", "ifExists"],
  webhook: ["url", "secrets"],
  queue: ["queue"],
  method: ["method"],
  agent: ["agent", "name", "method"],
};

/** Replaces the way in which a kind of destination is told, e.g. in a test. */
export type AdapterOverrides = Partial<All>;

export type AdaptersOptions = {
  /** The object whose methods `method()` names. */
  readonly host: object;
  /** Its bindings. */
  readonly env: object;
  readonly allowPrivateAddresses: boolean;
  /** The current time, epoch milliseconds. */
  readonly now: () => number;
  /** Runs the app's own code as the agent. */
  readonly inHostContext: <T>(work: () => Promise<T>) => Promise<T>;
  /** Tells this instance of the object from those before and after a restart. */
  readonly life: string;
  readonly startWorkflow: StartWorkflow | undefined;
  readonly overrides: AdapterOverrides | undefined;
};

export class Adapters {
  readonly #all: All;

  constructor({ env, life, startWorkflow, overrides, ...options }: AdaptersOptions) {
    this.#all = {
      workflow: workflowAdapter(env),
      "workflow-start": workflowStartAdapter({ env, life, run: startWorkflow }),
      webhook: webhookAdapter({ env, ...options }),
      queue: queueAdapter(env),
      method: methodAdapter(options),
      agent: agentAdapter(env),
      ...overrides,
    };
  }

  /** @throws Error for a kind that this version of Perdure does not know; the entry may be of a newer one */
  of({ kind }: Destination): Adapter {
    if (Object.hasOwn(this.#all, kind)) return this.#all[kind] as Adapter;
    throw new Error(
      `This version of Perdure knows no destination of the kind ${JSON.stringify(kind)}`,
    );
  }

  /** The kinds that this version knows. */
  get kinds(): readonly string[] {
    return Object.keys(this.#all);
  }

  keyOf(destination: Destination): string {
    return this.of(destination).keyOf(destination);
  }

  /** Its key, or for a kind that a newer version has stored, the kind: what was accepted is kept until that is back. */
  lineOf(destination: Destination): string {
    const { kind } = destination;
    return Object.hasOwn(this.#all, kind) ? this.keyOf(destination) : String(kind);
  }

  /** What is wrong with a destination, to be read after its name; undefined for a right one. */
  problemOf(destination: unknown): string | undefined {
    if (typeof destination !== "object" || destination === null) {
      return `is ${preview(destination)}; expected what webhook(), queue(), method(), agent(), workflow() or workflowEvent() returns.`;
    }
    const to = destination as Destination;
    if (!Object.hasOwn(this.#all, to.kind ?? "")) {
      return `has ${JSON.stringify(to.kind)} as kind; expected one of ${this.kinds.join(", ")}.`;
    }
    const fields = ["kind", "policy", ...FIELDS[to.kind]];
    const unknown = Object.keys(to).find((field) => !fields.includes(field));
    if (unknown !== undefined) {
      return `has ${JSON.stringify(unknown)}, which is no field of a ${to.kind} destination; there are ${fields.join(", ")}.`;
    }
    return (
      this.problemOfTexts(to) ??
      problemOfPolicy(to.policy) ??
      this.of(to).problemOf(to) ??
      problemOfLength(to)
    );
  }

  /** Which field of a destination is a text that cannot be stored; undefined for none. */
  problemOfTexts(fields: unknown): string | undefined {
    for (const [field, value] of Object.entries(fields ?? {})) {
      if (typeof value === "string" && !isWellFormedText(value)) {
        // Not shown: it may be a URL with a password in it.
        return `has half of a surrogate pair in its ${field}; expected well-formed text.`;
      }
    }
    return undefined;
  }
}

/** The adapters limit each text; this limits them together. */
function problemOfLength(to: Destination): string | undefined {
  const { length } = JSON.stringify(to);
  if (length <= MAX_LENGTH) return undefined;
  return `has ${length} characters as JSON; expected at most ${MAX_LENGTH}. Use shorter names.`;
}
