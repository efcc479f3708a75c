/** The sum of what is known, to a billionth of a dollar; undefined where nothing is. */
export function sumOfDollars(amounts: readonly (number | null | undefined)[]): number | undefined {
  const known = amounts.filter((amount) => typeof amount === "number");
  if (known.length === 0) return undefined;
  return Math.round(known.reduce((sum, amount) => sum + amount, 0) * 1e9) / 1e9;
}
