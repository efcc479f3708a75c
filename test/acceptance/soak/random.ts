/** Random numbers from a seed: mulberry32. */

export type Random = () => number;

/** Numbers from 0 up to 1. Streams of one seed are independent by their names. */
export function randomOf(seed: number, stream: string): Random {
  let state = [...stream].reduce(
    (hash, char) => Math.imul(hash ^ char.charCodeAt(0), 16_777_619),
    seed,
  );
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A whole number, both ends included. */
export function between(random: Random, from: number, to: number): number {
  return from + Math.floor(random() * (to - from + 1));
}

export function oneOf<T>(random: Random, values: readonly T[]): T {
  return values[between(random, 0, values.length - 1)] as T;
}
