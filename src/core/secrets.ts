/** Secrets of `env`, by the names of their bindings. */

/** A secret: a text, or a binding of the Secrets Store. Undefined if it is missing, empty or cannot be read. */
export async function secretIn(env: object, name: string): Promise<string | undefined> {
  try {
    const binding = (env as Record<string, { get?(): Promise<unknown> } | undefined>)[name];
    const value: unknown = (await binding?.get?.()) ?? binding;
    return typeof value === "string" && value ? value : undefined;
  } catch {
    // The caller reports it as a missing one.
    return undefined;
  }
}
