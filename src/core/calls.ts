/** Calls between Perdure's own parts, such as a step of a workflow and its agent: all by one method of the agent. */

import { failureOf } from "./failures.ts";

/** An agent, for a caller that uses these calls. */
export type CallsKernel<Calls extends object> = {
  callKernel<Name extends keyof Calls & string>(
    name: Name,
    ...args: Calls[Name] extends (...args: infer Args) => unknown ? Args : never
  ): Calls[Name] extends (...args: never) => infer Result ? Result : never;
};

/**
 * Whether a call failed because the class behind the stub has no such method. The platform, Vitest, and agents for a sub-agent
 * have no code for that. The whole text is compared: an app's own error may quote the method.
 */
export function lacksMethod(error: unknown, method: string): boolean {
  const name = JSON.stringify(method);
  return new RegExp(
    `^(The RPC receiver does not implement (the method )?${name}|Method ${name} not found on \\S+)\\.$`,
  ).test(failureOf(error).message);
}
