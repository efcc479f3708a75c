/** Secrets of `env`, by the names of their bindings, and the keys in them. */

/** A name of a binding in `env`, and no text that begins like a known secret or has 32 characters of hex. */
export const SECRET_NAME = /^(?!(whsec|sk|gh.|xox.)_|.*[\da-f]{32})[A-Za-z_$][\w$]{0,99}$/;

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

/**
 * The key of a Standard Webhooks secret: base64, also after `whsec_` or `v1,whsec_`, the form of Supabase and of the
 * specification's signatures. Undefined for another text.
 */
export function webhookKey(secret: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const key = Uint8Array.fromBase64(secret.trim().replace(/^(v1,)?whsec_/, ""));
    return key.length > 0 ? key : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The name of a secret for an error message, or undefined where the text may be a secret itself: a name is upper snake
 * case, or letters alone.
 */
export function shownName(name: string): string | undefined {
  return /^(?!.{101}|.*[\dA-F]{32})([A-Z][A-Z\d_]*|[A-Za-z_]+)$/.test(name) ? name : undefined;
}
