/** A stub of an agent that has only these verbs, by their names as in `operations.healthReport`. */
export function fakeStub(verbs: object): object {
  return {
    ...verbs,
    callKernel: async (verb: string, ...args: unknown[]) => {
      const call: unknown = Reflect.get(verbs, verb);
      if (typeof call !== "function") throw new TypeError(`${verb} is not a function`);
      return call(...args) as unknown;
    },
  };
}
