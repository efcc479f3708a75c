/** Secrets of `env`, by the names of their bindings. */

/** A secret: a text, or a binding of the Secrets Store. Undefined if it is missing, empty or cannot be read. */
export async function secretIn(env: object, name: string): Promise<string | undefined> {
  const binding = (env as Record<string, unknown>)[name];
  const value = typeof binding === "string" ? binding : await storedSecret(binding);
  return typeof value === "string" && value !== "" ? value : undefined;
}

async function storedSecret(binding: unknown): Promise<unknown> {
  try {
    return await (binding as { get?(): Promise<unknown> } | undefined)?.get?.();
  } catch {
    // The caller reports it as a missing one.
    return undefined;
  }
}
