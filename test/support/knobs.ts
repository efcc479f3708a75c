/**
 * Numbers that a run of the tests can be given from outside, e.g.
 * `VITE_PERDURE_MODEL_RUNS=5000 npx vitest run test/ledger-model.test.ts`.
 * Vite hands on what begins with VITE_; the environment itself does not reach workerd.
 */

type Env = Readonly<Record<string, string | undefined>>;

/** The text of `VITE_PERDURE_<name>`, if there is one. */
export function textKnob(name: string): string | undefined {
  const { env } = import.meta as ImportMeta & { readonly env: Env };
  return env[`VITE_PERDURE_${name}`] || undefined;
}

/** The number in `VITE_PERDURE_<name>`, or `otherwise`. */
export function knob(name: string, otherwise: number): number {
  const text = textKnob(name);
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (Number.isFinite(value)) return value;
  throw new Error(`VITE_PERDURE_${name} is ${JSON.stringify(text)}; expected a number`);
}
