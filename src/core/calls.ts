/** Calls between Perdure's own parts, such as a step of a workflow and its agent: all by one method of the agent. */

/** An agent, for a caller that uses these calls. */
export type CallsKernel<Calls extends object> = {
  callKernel<Name extends keyof Calls & string>(
    name: Name,
    ...args: Calls[Name] extends (...args: infer Args) => unknown ? Args : never
  ): Calls[Name] extends (...args: never) => infer Result ? Result : never;
};
