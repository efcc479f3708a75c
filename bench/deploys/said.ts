/** What `npx perdure check` has said of each cell. */

/** The parts of its JSON that count. */
export type Checked = {
  readonly problems: readonly {
    /** The agent's name, which is the id of its cell. */
    readonly name: string;
    readonly severity: "error" | "warning";
    readonly problem: string;
    readonly text: string;
  }[];
  readonly notChecked: readonly {
    readonly name: string;
    readonly id?: string;
    readonly why: string;
  }[];
};

export type Said = {
  readonly severity: "error" | "warning" | "not checked";
  /** E.g. `inserted`, each once. */
  readonly problems: readonly string[];
};

const RANK = ["error", "warning", "not checked"] as const;

/** By the ids of the cells. A cell of which nothing was said is not there. */
export function saidOf({ problems, notChecked }: Checked): ReadonlyMap<string, Said> {
  const all = [
    ...problems.map(({ name, severity, problem }) => ({ name, severity, problem })),
    ...notChecked.map(({ name, why }) => {
      return { name, severity: "not checked" as const, problem: why };
    }),
  ];
  const groups = Map.groupBy(all, ({ name }) => name);
  return new Map(
    Array.from(groups, ([name, group]) => {
      const severity = RANK.find((rank) => group.some((each) => each.severity === rank));
      const own = group.filter((each) => each.severity === severity);
      return [
        name,
        {
          severity: severity ?? "error",
          problems: [...new Set(own.map(({ problem }) => problem))],
        },
      ];
    }),
  );
}
