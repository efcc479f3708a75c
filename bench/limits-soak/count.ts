/** Counts findings, of which there must be none. Decides by the agents' public verbs and the provider's count alone. */

import type { Look, Turn } from "./words.ts";

export const FINDINGS = ["refused", "lost", "open", "failed", "twice"] as const;

export type Finding = {
  readonly kind: (typeof FINDINGS)[number];
  /** A turn, or the provider. */
  readonly id: string;
  readonly what: string;
};

export type Evidence = {
  readonly turns: readonly Turn[];
  readonly looks: readonly Look[];
  /** Answers 429, as milliseconds since the first request of the provider. */
  readonly refusals: readonly { readonly afterMs: number; readonly why: string }[];
};

/** The keeper may learn in the first minute what the account has used before. */
const LEARNING_MS = 60_000;

export function findingsOf({ turns, looks, refusals }: Evidence): Finding[] {
  const submissions = new Map(
    looks.flatMap((look) => look.submissions.map((one) => [one.id, one])),
  );
  const effects = looks.flatMap((look) => look.effects);
  return [
    ...refusals
      .filter(({ afterMs }) => afterMs > LEARNING_MS)
      .map(({ afterMs, why }): Finding => {
        const what = `${why}, after ${Math.round(afterMs / 1_000)} s`;
        return { kind: "refused", id: "provider", what };
      }),
    ...turns.flatMap(({ id, agent }): Finding[] => {
      const found = submissions.get(id);
      if (!found) return [{ kind: "lost", id, what: `of ${agent}` }];
      const { status, error, waitingFor, attempts } = found;
      if (status === "completed") return [];
      const what = `of ${agent}: ${status}, ${attempts} attempts, ${waitingFor ?? error ?? ""}`;
      return [{ kind: isOpen(status) ? "open" : "failed", id, what }];
    }),
    ...effects
      .filter(({ times }) => times > 1)
      .map(({ turn, times }): Finding => ({ kind: "twice", id: turn, what: `${times} effects` })),
  ];
}

/** How many turns have not ended. */
export function openIn(looks: readonly Look[]): number {
  return looks.flatMap((look) => look.submissions).filter(({ status }) => isOpen(status)).length;
}

function isOpen(status: string): boolean {
  return status === "pending" || status === "running";
}
