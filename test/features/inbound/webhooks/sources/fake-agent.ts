/** An agent in memory that accepts arrivals. Its failures are set by the test. */

import type { Acceptance, AcceptRequest } from "../../../../../src/features/inbound/protocol.ts";

export class FakeAgent {
  /** For its type. */
  declare readonly waitForSubmission: () => unknown;
  /** Requests in the order of their arrival. */
  readonly requests: AcceptRequest[] = [];
  /** Arrival ids that were accepted. */
  readonly accepted = new Set<string>();
  /** Answers of the next requests, in place of an acceptance. An error is thrown: the agent is unreachable. */
  readonly next: (Acceptance | Error | Promise<Acceptance>)[] = [];
  /** Arrival ids that are refused, with the answer. */
  readonly refusals = new Map<string, Acceptance | Error>();
  running = 0;
  mostRunning = 0;

  async callKernel(_: "acceptArrival", request: AcceptRequest): Promise<Acceptance> {
    this.requests.push(request);
    this.mostRunning = Math.max(this.mostRunning, ++this.running);
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.running--;
    const answer = this.next.shift() ?? this.refusals.get(request.arrival.id);
    if (answer instanceof Error) throw answer;
    if (answer) return answer;
    if (request.refusal !== undefined) {
      return { verdict: "refused", error: { name: "Error", message: request.refusal } };
    }
    if (request.call === undefined) return { verdict: "filtered" };
    const isKnown = this.accepted.has(request.arrival.id);
    this.accepted.add(request.arrival.id);
    return { verdict: isKnown ? "duplicate" : "accepted", result: { accepted: !isKnown } };
  }

  /** Only on the type: the handler gets a proxy. */
  declare readonly submitMessages: (messages: unknown[]) => Promise<{ accepted: boolean }>;
}

export const NO_ROOM: Acceptance = {
  verdict: "refused",
  error: { name: "BacklogFullError", message: "The backlog is full" },
  retryAfter: 30,
};
