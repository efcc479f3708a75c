/** An agent whose harness reports the usage of each reply in its metadata, as its tests say. */

import type { HarnessSession, SessionEvent, SessionWatch } from "agents/experimental/channels";
import { AiSdkHarness } from "agents/harness/ai-sdk";
import { DurableHarness } from "../../src/hosts/harness/index.ts";
import { limit, limits } from "../../src/limits/index.ts";
import { ScriptedModel } from "../../src/testing/index.ts";

/** The name of the limit, and so of its keeper. */
export const HARNESS = "harness";

/** The metadata that the harness adds to the replies of an agent, by its name. */
export const reported = new Map<string, readonly object[]>();

class ReportingHarness extends AiSdkHarness {
  constructor(private readonly metadata: () => readonly object[]) {
    super({ model: new ScriptedModel() });
  }

  override session(id?: string): HarnessSession {
    const session = super.session(id);
    const watch = async (): Promise<SessionWatch> => {
      const watched = await session.watch();
      const { state, closed } = watched;
      return {
        ...{ state, closed, stop: () => watched.stop() },
        start: (listener) =>
          watched.start((events) => listener(events.flatMap((event) => this.#with(event)))),
      };
    };
    return {
      ...{ id: session.id, watch },
      submit: (input, options) => session.submit(input, options),
      abort: (operationId) => session.abort(operationId),
      wait: (operationId, signal) => session.wait(operationId, signal),
      reset: (handoff) => session.reset(handoff),
    };
  }

  #with(event: SessionEvent): SessionEvent[] {
    if (event.type !== "chunk" || event.chunk.type !== "text-end") return [event];
    const reports = this.metadata().map((metadata) => ({
      ...{ type: "chunk", chunk: { type: "metadata", metadata } },
    }));
    return [event, ...(reports as SessionEvent[])];
  }
}

export class LimitedHarness extends DurableHarness<Cloudflare.Env> {
  static override readonly features = [
    limits({
      limits: [
        limit(HARNESS, {
          key: ({ agent }) => agent,
          requests: "10 per day",
          tokens: "1000 per day",
          usd: "1 per day",
        }),
      ],
      prices: { "openai/gpt": { input: 1_000, cachedInput: 100, output: 2_000 } },
    }),
  ];
  readonly harness = this.useHarness(new ReportingHarness(() => reported.get(this.name) ?? []));
}
