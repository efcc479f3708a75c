/** Bags of options: a name that nobody knows is a mistake, and must not pass for a default. */

/** What is wrong with a bag of options, or undefined: it is none, or has a name that is not among `names`. */
export function problemOfNames(
  what: string,
  options: unknown,
  names: readonly string[],
): { readonly name: string; readonly message: string } | undefined {
  if (options === undefined) return undefined;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    const given =
      options === null
        ? "null"
        : typeof options === "string"
          ? JSON.stringify(options)
          : String(options);
    return {
      name: what,
      message: `${what} is ${given}; expected an object with ${names.join(", ")}.`,
    };
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown === undefined) return undefined;
  const message = `${JSON.stringify(unknown)} is no option of ${what}; there are ${names.join(", ")}.`;
  return { name: unknown, message };
}
