/** A message as a stub of the agent can return it. */

import type { UIMessage } from "ai";

/**
 * A `UIMessage` in a form whose type survives the platform's RPC, which turns a result with an `unknown` in it into `never`. It
 * is assignable to `UIMessage`; `providerMetadata` is there and not in the type: assign the message to a `UIMessage` to read it.
 */
export type ThreadMessage = OverRpc<UIMessage>;

/** `unknown` is written out, and records of any depth are left out: RPC's types follow them without end. */
type OverRpc<T> = unknown extends T
  ? NonNullable<unknown> | null | undefined
  : T extends (infer Item)[]
    ? OverRpc<Item>[]
    : T extends object
      ? { [K in keyof T as string extends keyof NonNullable<T[K]> ? never : K]: OverRpc<T[K]> }
      : T;
