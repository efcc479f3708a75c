/** What several adapters look at alike: the texts of a destination, the bindings of `env`, and what a failure means. */

import { byteLength, preview } from "../../core/json.ts";
import { UndeliverableError } from "../errors.ts";
import type { Delivery, ReferencedDelivery } from "../types.ts";

const MAX_TEXT = 256;
/** Bindings that a message names, at most. */
const MAX_LISTED = 20;

/** What is wrong with the first of these fields that is no text of 1 to 256 characters. */
export function problemOfTexts(fields: Readonly<Record<string, unknown>>): string | undefined {
  for (const [field, text] of Object.entries(fields)) {
    if (typeof text === "string" && text !== "" && text.length <= MAX_TEXT) continue;
    return `has ${preview(text)} as ${field}; expected a text of 1 to ${MAX_TEXT} characters.`;
  }
  return undefined;
}

/** Every object has them, so none of them can be what a destination means. */
export function isMethodOfAnyObject(method: string): boolean {
  return method in Object.prototype;
}

/** A kind of binding, told from the others by its methods: the classes have other names in other runtimes. */
export type BindingKind<Binding> = {
  /** What it is called. */
  readonly what: string;
  /** The part of the Wrangler configuration that it is added to. */
  readonly section: string;
  /** Methods that together only this kind has. */
  readonly methods: readonly (keyof Binding & string)[];
};

/** The bindings of one kind that a Worker has. */
export class Bindings<Binding extends object> {
  readonly #env: Readonly<Record<string, unknown>>;
  readonly #kind: BindingKind<Binding>;

  constructor(env: object, kind: BindingKind<Binding>) {
    this.#env = env as Record<string, unknown>;
    this.#kind = kind;
  }

  /**
   * The binding of this name.
   *
   * @throws Error when it is missing, which is worth another attempt: the next deploy, or a
   *   rollback, may bring it back
   */
  get(name: string): Binding {
    const binding = this.#env[name];
    if (this.#is(binding)) return binding;
    const { what, section } = this.#kind;
    throw new Error(
      `No ${what} binding ${preview(name)} in this Worker. Add it to "${section}" in the Wrangler configuration and deploy.`,
    );
  }

  /** What is wrong with `name` as this field of a destination. */
  problemOf(field: string, name: string): string | undefined {
    if (this.#is(this.#env[name])) return undefined;
    const { what, section } = this.#kind;
    const names = Object.keys(this.#env).filter((other) => this.#is(this.#env[other]));
    const listed = names.slice(0, MAX_LISTED).map(preview).join(", ");
    const there = names.length > MAX_LISTED ? `${listed} and others` : listed || "none";
    return `has ${preview(name)} as ${field}; expected the name of a ${what} binding, and this Worker has ${there}. Add it to "${section}" in the Wrangler configuration.`;
  }

  #is(binding: unknown): binding is Binding {
    if (typeof binding !== "object" || binding === null) return false;
    const has = (method: string) => typeof Reflect.get(binding, method) === "function";
    // A binding to another Worker answers to every name.
    return this.#kind.methods.every(has) && !has("perdureAsksForNothing");
  }
}

/** Whether this is an error whose message says it so. */
export function says(error: unknown, words: RegExp): boolean {
  return error instanceof Error && words.test(error.message);
}

/**
 * Bytes of a delivery as JSON in UTF-8. Counting costs what sending costs, so
 * an adapter asks after a failure only: not every failure of size says so.
 */
export function bytesOf(delivery: Delivery | ReferencedDelivery): number {
  return byteLength(JSON.stringify(delivery));
}

const NAME = "UndeliverableError";
const NAMED = /^UndeliverableError: /;

/**
 * The failure of a receiver, as the class that it names (O3): RPC, and a
 * second copy of this package, lose the class. Without the compatibility flag
 * `enhanced_error_serialization` RPC loses the name as well, and puts it in
 * front of the message.
 */
export function asThrown(error: unknown): unknown {
  if (error instanceof UndeliverableError || !(error instanceof Error)) return error;
  const { name, message } = error;
  const isNamed = name === NAME || NAMED.test(message);
  if (!isNamed) return error;
  const { isGone } = error as { isGone?: unknown };
  return new UndeliverableError(message.replace(NAMED, ""), {
    cause: error,
    isGone: isGone === true,
  });
}
