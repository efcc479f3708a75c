/** Calls every verb with half of a surrogate pair in each of its texts, which must be refused at the call. */

import type { UIMessage } from "ai";
import { method } from "perdure/outbox";
import type { DurableThink } from "perdure/think";
import { toPrompt } from "./model.ts";

const HALF = "half \ud83d";

/** Returns the calls that were not refused. */
export async function acceptedMalformed(agent: DurableThink): Promise<string[]> {
  const message = (id: string): UIMessage => ({
    id,
    role: "user",
    parts: [{ type: "text", text: toPrompt({ text: "malformed" }) }],
  });
  const submit = (options: object, id: string = crypto.randomUUID()) =>
    agent.submitMessages([message(id)], { thread: "malformed", ...options });
  const tries: Readonly<Record<string, () => unknown>> = {
    "message id": () => submit({}, HALF),
    thread: () => submit({ thread: HALF }),
    submissionId: () => submit({ submissionId: HALF }),
    idempotencyKey: () => submit({ idempotencyKey: HALF }),
    channel: () => submit({ channel: HALF }),
    "debounce.key": () => submit({ debounce: { key: HALF, delay: 10 } }),
    notify: () => submit({ notify: [method(HALF)] }),
    "outbox id": () => agent.outbox.put(method("boom"), {}, { id: HALF }),
    clearThread: () => agent.clearThread(HALF),
  };
  const accepted: string[] = [];
  for (const [name, attempt] of Object.entries(tries)) {
    try {
      await attempt();
      accepted.push(name);
    } catch (error) {
      if (!/^(Invalid|Outbox)/.test((error as Error).name)) accepted.push(`${name}: ${error}`);
    }
  }
  return accepted;
}
