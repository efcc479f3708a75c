/** Agents, messages and waits for tests. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { capabilitiesOf, type SubmissionInspection } from "perdure/agent";
import type { Script } from "perdure/testing";
import { expect } from "vitest";
import { type Host, nameRoot, type Verbs } from "./hosts.ts";
import { joinTexts, message } from "./messages.ts";
import type { Plan } from "./workflows.ts";

/** Catches what hangs. No test takes as long. */
export const BOUND_MS = 60_000;
/** The first pause between two polls. Pauses double, because each poll is a call of the object. */
const POLL_MS = 5;
const MAX_POLL_MS = 80;

/** An agent of the app, by verbs that reconnect after a crash. */
export class GivenAgent {
  constructor(
    readonly host: Host,
    readonly name: string = `agent-${crypto.randomUUID()}`,
  ) {}

  /** A new stub. A stub stays broken after a crash of its object. */
  verbs(): Promise<Verbs> {
    return this.host.connect(this.name);
  }

  async capabilities(): Promise<ReturnType<typeof capabilitiesOf>> {
    return capabilitiesOf(await this.verbs());
  }

  /** The object, or the root agent of a sub-agent. */
  get root(): DurableObjectStub {
    return this.host.objects.getByName(nameRoot(this.name, this.host.depth));
  }

  /** Stops the object and its sub-agents. What they have committed stays. */
  async crash(): Promise<void> {
    await runInDurableObject(this.root, (_, ctx) => ctx.abort("crash of a test")).catch(
      (error: Error) => {
        if (!error.message.includes("crash of a test")) throw error;
      },
    );
  }

  /** Crashes, and starts again by a call, where the alarm that would start it is not tested. */
  async restart(): Promise<void> {
    await this.crash();
    await afterRestart(async () => (await this.verbs()).submissionStats());
  }

  /** Runs the alarm of the object. Returns whether there was one. */
  ring(): Promise<boolean> {
    return runDurableObjectAlarm(this.root);
  }

  /** Time of the object's alarm. */
  readAlarm(): Promise<number | null> {
    return runInDurableObject(this.root, (_, { storage }) => storage.getAlarm());
  }

  /** Submits a script or a text, to the main thread by default. */
  async submit(
    script: Script | string,
    options: Parameters<Verbs["submitMessages"]>[1] = {},
  ): Promise<string> {
    const verbs = await this.verbs();
    const { submissionId } = await verbs.submitMessages([message(script)], options);
    return submissionId;
  }

  async untilEnded(submissionId: string): Promise<SubmissionInspection> {
    return this.untilStatus(submissionId, "completed", "error", "aborted", "skipped");
  }

  async untilStatus(
    submissionId: string,
    ...statuses: SubmissionInspection["status"][]
  ): Promise<SubmissionInspection> {
    return until(
      async () => {
        const found = await this.inspect(submissionId);
        return found && statuses.includes(found.status) && found;
      },
      () => `submission ${submissionId} of ${this.name} to be ${statuses.join(" or ")}`,
    );
  }

  /** Reads the submission, also while the object restarts after a crash. */
  async inspect(submissionId: string): Promise<SubmissionInspection | undefined> {
    return afterRestart(async () => {
      const found = await (await this.verbs()).inspectSubmission(submissionId);
      return found ?? undefined;
    });
  }

  /** Texts of a thread, as `role: text`. */
  async texts(thread = "main"): Promise<string[]> {
    const messages = await (await this.verbs()).threadMessages(thread);
    return messages.map(({ role, parts }) => `${role}: ${joinTexts(parts)}`);
  }

  /** Starts a workflow. Returns its id. */
  async start(
    plan: Plan,
    id: string = `wf-${crypto.randomUUID()}`,
    options: Parameters<Verbs["runWorkflow"]>[2] = {},
  ): Promise<string> {
    return (await this.verbs()).runWorkflow(this.host.workflow, plan, { id, ...options });
  }

  async untilWorkflow(
    id: string,
    ...statuses: InstanceStatus["status"][]
  ): Promise<InstanceStatus> {
    let last: InstanceStatus["status"] | undefined;
    return until(
      async () => {
        const found = await (await this.host.workflows.get(id)).status();
        last = found.status;
        return statuses.includes(found.status) && found;
      },
      () => `workflow ${id} to be ${statuses.join(" or ")}; it is ${last}`,
    );
  }

  /** The output of a workflow, when it is complete. */
  async untilOutput(id: string): Promise<unknown> {
    const { status, output, error } = await this.untilWorkflow(id, "complete", "errored");
    expect({ status, error: error ?? null }).toEqual({ status: "complete", error: null });
    return output;
  }
}

export function givenAgent(host: Host, name?: string): GivenAgent {
  return new GivenAgent(host, name);
}

/**
 * Polls until `probe` returns a truthy value.
 *
 * @param expected what did not happen, for the error
 */
export async function until<Value>(
  probe: () => Value | Promise<Value>,
  expected: () => string = () => String(probe),
): Promise<Exclude<Value, undefined | null | false | 0 | "">> {
  const deadline = performance.now() + BOUND_MS;
  for (let pauseMs = POLL_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_POLL_MS)) {
    const value = await probe();
    if (value) return value as Exclude<Value, undefined | null | false | 0 | "">;
    if (performance.now() > deadline)
      throw new Error(`Waited ${BOUND_MS / 1_000} seconds for ${expected()}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Repeats a call that fails because its object crashes or restarts. Other errors are thrown. */
export async function afterRestart<Value>(call: () => Promise<Value>): Promise<Value> {
  return until(
    () =>
      call().then(
        (value) => ({ value }),
        (error: Error) => {
          if (isCrash(error)) return undefined;
          throw error;
        },
      ),
    () => `the object to answer: ${call}`,
  ).then(({ value }) => value);
}

function isCrash(error: Error): boolean {
  return (
    error.message.includes("crash of a test") ||
    (error as { retryable?: boolean }).retryable === true ||
    (error as { durableObjectReset?: boolean }).durableObjectReset === true
  );
}

/** The error that a call is refused with. `expect(call).rejects` would leave the promise of an RPC call unhandled. */
export async function refusal(call: PromiseLike<unknown>): Promise<Error> {
  try {
    await call;
  } catch (error) {
    return error as Error;
  }
  throw new Error("The call succeeded and should have been refused");
}
