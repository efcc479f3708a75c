/** What a replay gives in place of the bindings of a Worker: nothing is executed, and whatever is asked of them is noted. */

/** Notes what the code asked for, outside of a step, that no history has. */
export type NoteUnknown = (what: string) => unknown;

/** The same bindings, of which none has an effect. Namespaces of Durable Objects lead to the agent of the replay. */
export function replayedEnv(
  env: object,
  agent: (name: string) => object,
  note: NoteUnknown,
): object {
  const entries = Object.entries(env).map(([name, binding]: [string, unknown]) => {
    if (typeof binding !== "object" || binding === null || isData(binding)) return [name, binding];
    if (binding.constructor.name === "DurableObjectNamespace") return [name, namespaceOf(agent)];
    return [name, inert(`env.${name}`, note)];
  });
  return Object.fromEntries(entries) as object;
}

/** Notes of the replays that run. */
const replaying = new Set<NoteUnknown>();
const { fetch: realFetch } = globalThis;

/** Requests are not sent, until it is disposed. */
export function withoutFetch(note: NoteUnknown): Disposable {
  replaying.add(note);
  const noted = async () => [...replaying].map((each) => each("fetch()")).at(-1);
  globalThis.fetch = noted as typeof fetch;
  return {
    [Symbol.dispose]() {
      replaying.delete(note);
      if (replaying.size === 0) globalThis.fetch = realFetch;
    },
  };
}

/** A variable of the configuration. */
function isData(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null;
}

function namespaceOf(agent: (name: string) => object): object {
  const namespace = {
    // Steps recognize namespaces by the name of their class.
    constructor: { name: "DurableObjectNamespace" },
    idFromName: (name: string) => replayedId(name),
    idFromString: (id: string) => replayedId(id),
    newUniqueId: () => replayedId("unique"),
    get: ({ name }: { name: string }) => agent(name),
    getByName: (name: string) => agent(name),
    jurisdiction: () => namespace,
  };
  return namespace;
}

export function replayedId(name: string): object {
  const equals = (other: { name?: unknown }) => other.name === name;
  return { name, equals, toString: () => name };
}

/** A binding whose members can all be called, with the answer of `note`. */
function inert(what: string, note: NoteUnknown): object {
  return new Proxy(() => {}, {
    get: (_, key) =>
      typeof key === "symbol" || key === "then" ? undefined : inert(`${what}.${key}`, note),
    apply: () => note(`${what}()`),
  });
}

/** How the code has used a made-up value. */
export type Use = {
  /** It was made a text or a number, or was iterated: no made-up value stands for all real ones then. */
  isComputed: boolean;
};

/** Stands for a value that no history has: it has every property, and can be called and converted. */
export function anything(use: Use = { isComputed: false }): unknown {
  const computed = <Value>(value: Value) => {
    use.isComputed = true;
    return value;
  };
  return new Proxy(() => {}, {
    get: (_, key) => {
      if (key === "then") return undefined;
      if (key === Symbol.toPrimitive) return () => computed("");
      if (key === "toJSON") return () => computed(null);
      if (key === Symbol.iterator) return computed(Array.prototype[Symbol.iterator].bind([]));
      return typeof key === "symbol" ? undefined : anything(use);
    },
    ownKeys: () => computed([]),
    apply: () => anything(use),
  });
}
