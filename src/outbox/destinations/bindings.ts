/** What several kinds of destinations share: names, the bindings of `env`, and errors of receivers. */

import { because } from "../../core/failures.ts";
import { byteLength, preview } from "../../core/json.ts";
import { text } from "../../core/options/option-schemas.ts";
import { UndeliverableError } from "../errors.ts";
import type { Delivery, FieldProblem, ReferencedDelivery } from "./adapter.ts";

/** A name in a destination. */
export const NAME = text({ maxLength: 256 });
/** Bindings that a message names, at most. */
const MAX_LISTED = 20;

/** Whether every object has this method, so that it cannot be the one of a destination. */
export function isMethodOfAnyObject(method: string): boolean {
  return method in Object.prototype;
}

/** A kind of binding, recognized by its methods: the classes have other names in other runtimes. */
export type BindingKind<Binding> = {
  readonly what: string;
  /** The part of the Wrangler configuration that it is added to. */
  readonly section: string;
  /** Methods that together only this kind has. */
  readonly methods: readonly (keyof Binding & string)[];
};

export const WORKFLOW: BindingKind<Workflow> = {
  what: "Workflow",
  section: "workflows",
  methods: ["get", "createBatch"],
};

export const NAMESPACE: BindingKind<DurableObjectNamespace> = {
  what: "Durable Object",
  section: "durable_objects.bindings",
  methods: ["idFromName", "getByName"],
};

/** @throws Error where it is missing, which is retried: the next deploy, or a rollback, may bring it back */
export function bindingOf<Binding extends object>(
  env: object,
  kind: BindingKind<Binding>,
  name: string,
): Binding {
  const binding: unknown = Reflect.get(env, name);
  if (isOf(kind, binding)) return binding;
  const { what, section } = kind;
  const problem = `No ${what} binding ${preview(name)} in this Worker. Add it to "${section}" in the Wrangler configuration and deploy.`;
  throw because(new Error(problem), "binding-missing");
}

/** What is wrong with the name of a binding in this field of a destination. */
export function problemOfBinding<Binding extends object>(
  env: object,
  kind: BindingKind<Binding>,
  field: string,
  name: string,
): FieldProblem | undefined {
  if (isOf(kind, Reflect.get(env, name))) return undefined;
  const expected = `expected the name of a ${kind.what} binding. ${remedyOf(env, kind)}`;
  return { field, given: preview(name), expected };
}

/** Which bindings there are, and where another is added. The last sentence has no full stop. */
export function remedyOf<Binding extends object>(env: object, kind: BindingKind<Binding>): string {
  const names = bindingsOf(env, kind).map(([name]) => preview(name));
  const listed = names.slice(0, MAX_LISTED).join(", ") || "none";
  const existing = names.length > MAX_LISTED ? `${listed} and others` : listed;
  return `This Worker has ${existing}. Add it to "${kind.section}" in the Wrangler configuration`;
}

/** All of this kind, by their names. */
export function bindingsOf<Binding extends object>(
  env: object,
  kind: BindingKind<Binding>,
): [name: string, binding: Binding][] {
  const isOfKind = (entry: [string, unknown]): entry is [string, Binding] => isOf(kind, entry[1]);
  return Object.entries(env).filter(isOfKind);
}

function isOf<Binding>({ methods }: BindingKind<Binding>, binding: unknown): binding is Binding {
  if (typeof binding !== "object" || binding === null) return false;
  const has = (method: string) => typeof Reflect.get(binding, method) === "function";
  // A binding to another Worker answers to every name.
  return methods.every(has) && !has("perdureAsksForNothing");
}

/**
 * Bytes of a delivery as JSON in UTF-8. Counting costs as much as sending, so an adapter counts after a failure only: not
 * every error about the size says so.
 */
export function bytesOf(delivery: Delivery | ReferencedDelivery): number {
  return byteLength(JSON.stringify(delivery));
}

const PREFIX = /^UndeliverableError: /;

/**
 * The error of a receiver, as an UndeliverableError where it was one: RPC, and a second copy of this package, lose the
 * class. Without the compatibility flag `enhanced_error_serialization` RPC moves the name to the front of the message.
 */
export function asThrown(error: unknown): unknown {
  if (error instanceof UndeliverableError || !(error instanceof Error)) return error;
  const { name, message } = error;
  if (name !== "UndeliverableError" && !PREFIX.test(message)) return error;
  const { isGone } = error as { isGone?: unknown };
  const options = { cause: error, isGone: isGone === true };
  return new UndeliverableError(message.replace(PREFIX, ""), options);
}

/** As agents find the binding of a class, and without regard to case. */
export function isAlike(binding: string, className: string): boolean {
  const [one, other] = [binding, className].map((name) => name.replace(/[-_]/g, "").toLowerCase());
  return one === other;
}
