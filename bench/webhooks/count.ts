/** Counts findings, of which there must be none. Decides by the answers and the public verbs of the agents alone. */

import type { Kind, Look } from "./deliveries.ts";
import type { Record } from "./sender.ts";

export const FINDINGS = ["lost", "twice", "stuck", "log", "answers"] as const;

export type Finding = {
  readonly kind: (typeof FINDINGS)[number];
  /** A delivery, a workflow or an agent. */
  readonly id: string;
  readonly what: string;
};

export type Evidence = {
  readonly records: readonly Record[];
  readonly looks: readonly Look[];
  /** The platform's status of each workflow. */
  readonly workflows: Readonly<globalThis.Record<string, string>>;
  /** Ids of requests that must be refused. */
  readonly invalid: readonly string[];
  /** Answers that nothing explains. */
  readonly wrong: readonly string[];
};

/** What each kind has as its effects, and whether it has a submission. */
const EFFECTS: { readonly [kind in Kind]: readonly string[] } = {
  submit: ["turn"],
  workflow: ["workflow"],
  sync: ["sync"],
  async: ["async"],
  two: ["sync", "turn"],
  none: [],
};
const OPEN = ["pending", "running"];

export function findingsOf({ records, looks, workflows, invalid, wrong }: Evidence): Finding[] {
  const agents = new Map(looks.map((look) => [look.agent, indexOf(look)]));
  const known = new Set(records.map(({ delivery: { source, id } }) => `${source}:${id}`));
  const refused = new Set(invalid);
  return [
    ...records.flatMap((record) => {
      const index = agents.get(record.delivery.agent);
      return index ? [...effectsOf(record, index), ...rowOf(record, index)] : [];
    }),
    ...looks.flatMap(({ log }) =>
      log
        .filter(({ source, id }) => !known.has(`${source}:${id}`))
        .map(({ source, id }): Finding => {
          const what = refused.has(id)
            ? "was refused, and is in the log"
            : "no request has this id";
          return { kind: "log", id: `${source}:${id}`, what };
        }),
    ),
    ...looks.flatMap(openIn),
    ...Object.entries(workflows)
      .filter(([, status]) => status !== "complete")
      .map(([id, what]): Finding => ({ kind: "stuck", id, what: `workflow: ${what}` })),
    ...wrong.map((what): Finding => ({ kind: "answers", id: "sender", what })),
  ];
}

type Index = {
  readonly log: ReadonlyMap<string, Look["log"][number]>;
  readonly effects: ReadonlyMap<string, Look["effects"]>;
  readonly submissions: ReadonlyMap<string, Look["submissions"]>;
};

function indexOf({ log, effects, submissions }: Look): Index {
  return {
    log: new Map(log.map((row) => [`${row.source}:${row.id}`, row])),
    effects: Map.groupBy(effects, ({ delivery }) => delivery),
    submissions: Map.groupBy(submissions, ({ delivery }) => delivery),
  };
}

/** What the delivery has started, and how often. */
function effectsOf({ delivery: { id, kind }, lost }: Record, index: Index): Finding[] {
  const effects = index.effects.get(id) ?? [];
  const submissions = index.submissions.get(id) ?? [];
  const isTurn = EFFECTS[kind].includes("turn");
  const counted: [what: string, found: number, least: number, most: number][] = [
    ["submissions", submissions.length, isTurn ? 1 : 0, isTurn ? 1 : 0],
  ];
  for (const name of ["turn", "workflow", "sync", "async"]) {
    const found = effects.filter(({ what }) => what.split(" ")[0] === name);
    const expected = EFFECTS[kind].includes(name) ? 1 : 0;
    // A workflow is counted by its instances: the platform may repeat its step.
    const times =
      name === "workflow" ? found.length : found.reduce((sum, effect) => sum + effect.times, 0);
    // A crash repeats an asynchronous method, at most as often as a request was left without an answer.
    const most = name === "async" ? expected * (1 + lost) : expected;
    counted.push([name, times, expected, most]);
  }
  return counted.flatMap(([what, found, least, most]): Finding[] => {
    if (found >= least && found <= most) return [];
    return [{ kind: found < least ? "lost" : "twice", id, what: `${kind}, ${what}: ${found}` }];
  });
}

/** The row of the log, and whether it agrees with the answers. */
function rowOf(record: Record, index: Index): Finding[] {
  const { source, id, kind } = record.delivery;
  const row = index.log.get(`${source}:${id}`);
  if (!row) return [{ kind: "lost", id, what: `answered ${record.verdicts}, not in the log` }];
  const said = (verdict: string) => record.verdicts.filter((one) => one === verdict).length;
  const sent = sentOf(record);
  const expected = kind === "none" ? "filtered" : "accepted";
  const isUnknown = record.verdicts.some((one) => one !== expected && one !== "duplicate");
  // Each of two requests at a time can be the first with one of the two calls.
  const most = kind === "none" ? sent : kind === "two" ? 2 : 1;
  const isFirstLost = record.lost === 0 && said(expected) === 0;
  const isCounted = row.duplicates >= said("duplicate") && row.duplicates < sent;
  const agrees = row.verdict === expected && !isUnknown && said(expected) <= most && !isFirstLost;
  // Each was answered with 2xx, so its handler has ended.
  if (agrees && isCounted && row.error === null) return [];
  const what = `${kind}, answered ${record.verdicts}, ${record.lost} times without an answer; in the log: ${JSON.stringify(row)}`;
  return [{ kind: "log", id, what }];
}

/** How often it was sent. */
export function sentOf({ verdicts, lost, refused }: Record): number {
  return verdicts.length + lost + [...refused.values()].reduce((sum, times) => sum + times, 0);
}

/** What has not ended, and what cannot be delivered. */
export function openIn({ agent, submissions, waiting, deadLetters }: Look): Finding[] {
  const ended = submissions.filter(({ status }) => status !== "completed");
  return [
    ...ended.map(({ delivery: id, status }): Finding => {
      return { kind: OPEN.includes(status) ? "stuck" : "lost", id, what: `submission: ${status}` };
    }),
    ...(waiting > 0
      ? [{ kind: "stuck" as const, id: agent, what: `${waiting} entries in the outbox` }]
      : []),
    ...deadLetters.map(({ id, error }): Finding => ({ kind: "lost", id, what: error })),
  ];
}
