/** Sizes of tests: short by default, and whole in `npm run prove`, which sets variables. */

const { env } = import.meta as unknown as { env: Readonly<Record<string, string | undefined>> };

/** The variable `VITE_PERDURE_<name>`. */
export function readSize(name: string, standard: number): number {
  const given = env[`VITE_PERDURE_${name}`];
  const size = Number(given ?? standard);
  if (!Number.isSafeInteger(size) || size < 1)
    throw new Error(`Invalid VITE_PERDURE_${name} "${given}": expected a whole number from 1`);
  return size;
}
