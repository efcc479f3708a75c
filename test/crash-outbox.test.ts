/**
 * A crash at every single write of every way that an event can take through
 * the outbox, and again at every write of what comes after a crash. Whatever
 * was committed when, nothing that was accepted is lost, and nothing that was
 * rolled back arrives. After a crash the object has its alarm and nothing else.
 *
 * A crash takes the runtime a tenth of a second, so that some of them, which
 * differ least, are left out; `VITE_PERDURE_OUTBOX_CRASHES=1` plays them all.
 */

import { afterAll, describe, expect, it } from "vitest";
import { until } from "./support/given.ts";
import { knob } from "./support/knobs.ts";
import { sleep } from "./support/ledger.ts";
import { type Box, givenOutbox, inside, orphansIn, wakeBox, wakesOf } from "./support/outbox.ts";
import type { OutboxObject } from "./support/outbox-object.ts";
import { WAYS, type Way } from "./support/outbox-ways.ts";

/**
 * Before and after the write itself, everything since the last wait is lost
 * with it; soon after, the write has been committed.
 */
type Moment = "before" | "after" | "soon after";
type Point = { readonly write: number; readonly moment: Moment };
const ALL = ["before", "after", "soon after"] as const;
const PLAYS_ALL = knob("OUTBOX_CRASHES", 0) === 1;
const MOMENTS: readonly Moment[] = PLAYS_ALL ? ALL : ["soon after"];
/** Of the second life, every so manieth write; of the first one, each. */
const STRIDE = PLAYS_ALL ? 1 : 4;

type Outcome = {
  /** Of the last life that had no crash of its own. */
  readonly writes: readonly string[];
  readonly lives: number;
  readonly problems: readonly string[];
};

function crashAt({ meter }: OutboxObject, ctx: DurableObjectState, { write, moment }: Point): void {
  meter.reset();
  meter[moment === "before" ? "onWrite" : "onWritten"] = (now) => {
    if (now !== write) return;
    if (moment === "soon after") setTimeout(() => ctx.abort("crash"), 0);
    else ctx.abort("crash");
  };
}

/** Waits for something that must come about without anybody's help but the alarm's. */
async function comes(box: Box, isThere: (ctx: DurableObjectState) => boolean, writes: string[]) {
  const look = () => inside(box, (_, ctx) => isThere(ctx)).catch(() => false);
  const soon = () => until(look, 150).then(Boolean, () => false);
  // A crash that comes late needs a wake more; nothing here needs ten.
  for (let wake = 0; wake < 10; wake++) {
    if (await soon()) return;
    await wakeBox(box).catch(() => false);
  }
  throw new Error(`It never came about; the last writes were ${writes.slice(-6).join(" | ")}`);
}

async function live(way: Way, crashes: readonly (Point | undefined)[]): Promise<Outcome> {
  const writes: string[] = [];
  const play = way();
  let lives = 0;
  const box = givenOutbox({
    ...play.script,
    born: (object, ctx) => {
      const crash = crashes[lives++];
      // The first life is prepared before it may crash.
      if (lives === 1) return;
      if (crash) crashAt(object, ctx, crash);
      else if (lives === crashes.length) object.meter.onWrite = (_, what) => writes.push(what);
    },
  });
  await inside(box, async (object, ctx) => {
    await object.lifecycle.start();
    if (crashes[0]) crashAt(object, ctx, crashes[0]);
    else if (crashes.length === 1) object.meter.onWrite = (_, what) => writes.push(what);
  });
  const problems: string[] = [];
  try {
    for (const { act, until: isThere } of play.steps) {
      // A caller that was not told asks again; who was told does nothing more.
      await until(
        () =>
          inside(box, act).then(
            () => true,
            () => false,
          ),
        5_000,
      );
      await comes(box, isThere, writes);
    }
    await comes(box, isAtRest, writes);
    await sleep(20);
    problems.push(...(await inside(box, problemsAtRest)));
  } catch (error) {
    problems.push(String(error));
  }
  return { writes, lives, problems: [...problems, ...play.problems()] };
}

/** Nothing waits, and nobody is still to be told. */
function isAtRest({ storage: { sql } }: DurableObjectState): boolean {
  const waiting = sql.exec("SELECT 1 FROM perdure_outbox").toArray();
  const untold = sql.exec("SELECT 1 FROM perdure_dead_letters WHERE is_told = 0").toArray();
  return waiting.length + untold.length === 0;
}

async function problemsAtRest(_: OutboxObject, ctx: DurableObjectState): Promise<string[]> {
  const isEmpty = async () => {
    const { job, alarm } = await wakesOf(ctx);
    return job === null && alarm === null;
  };
  const isQuiet = await until(isEmpty, 1_000).catch(() => false);
  return [...orphansIn(ctx), ...(isQuiet ? [] : ["O5 it holds a job or an alarm"])];
}

const tried: Record<string, number> = {};
afterAll(() => {
  const points = Object.values(tried).reduce((sum, count) => sum + count, 0);
  console.log(`${points} crash points tried:`, tried);
});

const pointsOf = (writes: readonly string[], moments: readonly Moment[]): Point[] =>
  writes.flatMap((_, index) => moments.map((moment) => ({ write: index + 1, moment })));

/** Plays the way with a crash at each of the points. Returns how many lives each had. */
async function tryAll(
  points: readonly Point[],
  writes: readonly string[],
  run: (point: Point) => Promise<Outcome>,
): Promise<number[]> {
  const outcomes = await Promise.all(
    points.map(async (point) => ({ ...point, ...(await run(point)) })),
  );
  const wrong = outcomes.flatMap(({ write, moment, problems }) => {
    const what = writes[write - 1]?.replaceAll(/\s+/g, " ").slice(0, 70);
    return problems.length > 0
      ? [`${moment} write ${write} (${what}): ${problems.join("; ")}`]
      : [];
  });
  expect(wrong).toEqual([]);
  return outcomes.map(({ lives }) => lives);
}

describe.concurrent("O1 O2 O3 O4 O5 whenever the object crashes, nothing is lost", () => {
  const names = Object.keys(WAYS) as (keyof typeof WAYS)[];

  it.each(names)(
    "of %s",
    async (name) => {
      const way = WAYS[name];
      const { writes, problems, lives } = await live(way, [undefined]);
      expect({ problems, lives }).toEqual({ problems: [], lives: 1 });
      const lifes = await tryAll(pointsOf(writes, MOMENTS), writes, (point) => live(way, [point]));
      // Each point was reached, and each crash survived by a second life.
      expect(new Set(lifes)).toEqual(new Set([2]));
      tried[name] = lifes.length;
    },
    60_000,
  );

  it.each(names)(
    "of %s, and again in the life after",
    async (name) => {
      const way = WAYS[name];
      const first = await live(way, [undefined]);
      const stored = first.writes.findIndex((what) => what.includes("INTO perdure_outbox")) + 1;
      const inDelivery: Point = { write: stored, moment: "soon after" };
      const { writes, problems } = await live(way, [inDelivery, undefined]);
      expect(problems).toEqual([]);
      const points = pointsOf(writes, MOMENTS).filter(
        ({ write }) => (write + names.indexOf(name)) % STRIDE === 0,
      );
      const lifes = await tryAll(points, writes, (point) => live(way, [inDelivery, point]));
      expect(Math.min(...lifes)).toBeGreaterThanOrEqual(2);
      tried[`${name}, again`] = lifes.filter((count) => count >= 3).length;
    },
    60_000,
  );
});
