/**
 * Plays a scenario on Think and on DurableThink, and compares what it has come to. A scenario is played once on each side,
 * and shows several documented sentences: each of them is a case, and a test.
 */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { ThinkSubmissionInspection } from "@cloudflare/think";
import type { UIMessage } from "ai";
import { describe, expect, it } from "vitest";
import { type VirtualClock, virtualClock } from "../../src/testing/index.ts";
import { outputOf } from "../support/engine.ts";
import { message, until } from "../support/given.ts";
import {
  builtInLibrary,
  type Entry,
  logOf,
  modelOf,
  type PeerAgent,
  perdureLibrary,
  type Settings,
  settingsOf,
  type WorkflowBody,
  type WorkflowLibrary,
  workflowBodies,
} from "./app.ts";
import { pages } from "./pages.ts";

export type Side = "builtIn" | "perdure";

/** What is called on an agent from outside: the RPC types refuse results that hold anything unknown. */
type Called = {
  [Name in
    | "applyLabels"
    | "cancelSubmission"
    | "defaults"
    | "deleteSubmission"
    | "deleteSubmissions"
    | "inspectSubmission"
    | "listSubmissions"
    | "reset"
    | "start"
    | "submitMessages"
    | "tell"
    | "terminateWorkflow"
    | "waitForSubmission"]: (
    ...args: Parameters<PeerAgent[Name]>
  ) => Promise<Awaited<ReturnType<PeerAgent[Name]>>>;
};

/** One agent of a side, and what a scenario does with it. */
export class Peer {
  readonly name: string;
  readonly log: Entry[];
  readonly settings: Settings;
  /** What an app imports from the library of this side. */
  readonly library: WorkflowLibrary;
  readonly workflow: Workflow;

  constructor(
    readonly side: Side,
    readonly clock?: VirtualClock,
  ) {
    this.name = `peer-${crypto.randomUUID()}`;
    this.log = logOf(this.name);
    this.settings = {};
    settingsOf.set(this.name, this.settings);
    this.library = side === "builtIn" ? builtInLibrary : perdureLibrary;
    this.workflow = side === "builtIn" ? env.PEER_BUILT_IN_WORKFLOW : env.PEER_PERDURE_WORKFLOW;
  }

  /** Another agent of the same side. */
  another(): Peer {
    return new Peer(this.side, this.clock);
  }

  /** A stub does not outlive a crash. */
  get agent(): Called {
    return this.stub as unknown as Called;
  }

  get stub(): DurableObjectStub<PeerAgent> {
    const namespace = this.side === "builtIn" ? env.PeerThink : env.PeerDurable;
    return namespace.getByName(this.name);
  }

  /** Runs in the object of the agent, whose start it waits for. */
  async inside<T>(work: (agent: PeerAgent, ctx: DurableObjectState) => T | Promise<T>): Promise<T> {
    await this.agent.defaults();
    return runInDurableObject<PeerAgent, T>(this.stub, work);
  }

  /** The end of a submission. */
  async ended(submissionId: string): Promise<ThinkSubmissionInspection> {
    const found = await this.agent.waitForSubmission(submissionId, { timeoutMs: 60_000 });
    if (!found || found.status === "pending" || found.status === "running") {
      throw new Error(`${submissionId} is ${found?.status ?? "unknown"}`);
    }
    return { ...found };
  }

  async status(submissionId: string): Promise<string | undefined> {
    return (await this.agent.inspectSubmission(submissionId))?.status;
  }

  /** Waits until the model was called so often. */
  async asked(times = 1): Promise<void> {
    await until(() => modelOf(this.name).calls.length >= times);
  }

  get model() {
    return modelOf(this.name);
  }

  /** Entries of these hooks, in their order. */
  hooks(...names: string[]): Entry[] {
    return this.log.filter(({ hook }) => names.includes(hook));
  }

  /** `role: text` of the conversation; parts that are no text by their type. */
  async transcript(): Promise<string[]> {
    const messages = await this.inside((agent) => agent.getMessages());
    return messages.map(
      ({ role, parts }) =>
        `${role}: ${parts
          .filter(({ type }) => type !== "step-start")
          .map((part) => (part.type === "text" ? part.text : `[${part.type}]`))
          .join("")}`,
    );
  }

  /** An id of its own in all the world, which reads alike on both sides. */
  id(of: string): string {
    return `${this.name}-${of}`;
  }

  /** Starts a workflow that does this. */
  async start(of: string, body: WorkflowBody, metadata?: Record<string, unknown>): Promise<string> {
    const id = this.id(of);
    workflowBodies.set(id, body);
    await this.agent.start(id, metadata);
    return id;
  }

  /** Runs a workflow to its end. */
  async run<T>(of: string, body: WorkflowBody): Promise<T> {
    return outputOf<T>(this.workflow, await this.start(of, body));
  }

  /** Turns with the script `held` stand at a tool until they are released. */
  hold(): { held: object; release: () => void } {
    let isHeld = true;
    this.settings.work = async () => {
      while (isHeld) await new Promise((resolve) => setTimeout(resolve, 20));
    };
    const held = { tool: { name: "work", input: { text: "wait" } } };
    const release = () => {
      isHeld = false;
    };
    return { held, release };
  }

  /** The object dies where it stands. */
  async crash(): Promise<void> {
    await runInDurableObject(this.stub, (_, ctx) => ctx.abort("crash")).catch(() => {});
  }

  /** The same on both sides: ids, names, and times become words. */
  plain(value: unknown): unknown {
    const text = JSON.stringify(value);
    const binding = this.side === "builtIn" ? "PEER_BUILT_IN_WORKFLOW" : "PEER_PERDURE_WORKFLOW";
    return JSON.parse(
      (text ?? "null")
        .replaceAll(this.name, "<agent>")
        .replaceAll(binding, "<workflow>")
        .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<random>")
        .replaceAll(/(?<![\w.])1\d{12}(?![\w.])/g, '"<time>"'),
    );
  }
}

export type Case<Seen> = {
  /** What the documentation says, word for word. */
  readonly says: string;
  /** What the case shows of it. */
  readonly shows: string;
  readonly see: (seen: Seen) => unknown;
  /** What is seen: on both sides, or on the built-in side where they differ. */
  readonly is: unknown;
  /** The name of the intended difference, and what is seen on Perdure's side. */
  readonly differs?: { readonly by: string; readonly perdure: unknown };
};

type Page = keyof typeof pages;

export type Scenario<Seen> = {
  readonly page: Page;
  readonly play: (peer: Peer) => Promise<Seen>;
  readonly cases: readonly Case<Seen>[];
  /** The time at which a virtual clock begins. Such scenarios are played alone, one side after the other. */
  readonly at?: string;
};

/** For the inference of what is seen. */
export function scenario<Seen>(of: Scenario<Seen>): Scenario<unknown> {
  return of as unknown as Scenario<unknown>;
}

type Played<Seen> = { readonly peer: Peer; readonly seen: Seen };

async function playAt<Seen>({ play, at }: Scenario<Seen>, side: Side): Promise<Played<Seen>> {
  if (at === undefined) {
    const peer = new Peer(side);
    return { peer, seen: await play(peer) };
  }
  using clock = virtualClock({ at });
  const peer = new Peer(side, clock);
  return { peer, seen: await play(peer) };
}

/** Both sides, once for all cases. */
function played<Seen>(of: Scenario<Seen>) {
  let both: Promise<[Played<Seen>, Played<Seen>]> | undefined;
  return () => {
    both ??=
      of.at === undefined
        ? Promise.all([playAt(of, "builtIn"), playAt(of, "perdure")])
        : playAt(of, "builtIn").then(async (one) => [one, await playAt(of, "perdure")]);
    return both;
  };
}

/** The tests of these scenarios. */
export function compare(area: string, scenarios: readonly Scenario<unknown>[]): void {
  // A virtual clock is the whole isolate's.
  const isTimed = scenarios.some(({ at }) => at !== undefined);
  const suite = isTimed ? describe : describe.concurrent;
  suite(area, () => {
    for (const one of scenarios) {
      const both = played(one);
      for (const each of one.cases) {
        it(`${one.page}: ${each.shows}`, async () => {
          expect(pages[one.page]).toContain(squeezed(each.says));
          const [builtIn, perdure] = await both();
          check(each, [
            builtIn.peer.plain(each.see(builtIn.seen)),
            perdure.peer.plain(each.see(perdure.seen)),
          ]);
        });
      }
    }
  });
}

/** On one line. */
function squeezed(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

function check({ is, differs }: Case<unknown>, [builtIn, perdure]: [unknown, unknown]) {
  expect(builtIn, "the built-in").toEqual(is);
  if (!differs) {
    expect(perdure, "Perdure, compared with the built-in").toEqual(builtIn);
    return;
  }
  expect(perdure, "Perdure, which differs").toEqual(differs.perdure);
  expect(perdure, "no difference any more").not.toEqual(builtIn);
}

/** How a call was refused; an error of the library by its name and text. */
export async function refused(call: () => unknown): Promise<string> {
  try {
    await call();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return "not refused";
}

/** A user's message. */
export function says(text: string | object, id?: string): UIMessage {
  return message(text as string, id);
}
