/** What an app's class overrides of its host's class. */

/** Names of methods of a class, as they were when it was constructed first: agents replace all of them by wrappers then. */
const methodNames = new WeakMap<object, ReadonlySet<string>>();

/**
 * Those verbs that no class between an agent's class and its host overrides. Call it before each construction.
 *
 * @param agent the class that is constructed
 * @param host the class of Perdure that it extends
 */
export function notOverridden(agent: object, host: object): (verb: string) => boolean {
  const names: ReadonlySet<string>[] = [];
  for (let at: object | null = agent; at !== null && at !== host; at = Object.getPrototypeOf(at)) {
    const { prototype } = at as { readonly prototype: object };
    const known = methodNames.get(at) ?? new Set(Object.getOwnPropertyNames(prototype));
    methodNames.set(at, known);
    names.push(known);
  }
  return (verb) => !names.some((known) => known.has(verb));
}

/**
 * Whether the app has a hook of its own, in a class or as a field of the agent. A comparison with the host's method does not
 * show it: agents replace inherited methods by wrappers.
 *
 * @param isBuiltIn what {@link notOverridden} has returned
 */
export function hooksOf(
  agent: object,
  isBuiltIn: (name: string) => boolean,
): (name: string) => boolean {
  return (name) => !isBuiltIn(name) || Object.hasOwn(agent, name);
}
