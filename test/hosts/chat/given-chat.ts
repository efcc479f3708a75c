/** Chat agents of the tests, and clients of them. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import { clientOf } from "../../support/client.ts";
import { until } from "../../support/given.ts";
import { type ChatApp, hooks } from "./chat-app.ts";

let made = 0;

export function givenChat<Kind extends "ChatApp" | "PlainChat" | "VariantChat">(kind: Kind) {
  const name = `${kind}-${++made}-${crypto.randomUUID()}`;
  const objects = env[kind] as unknown as DurableObjectNamespace<ChatApp>;
  const stub = () => objects.getByName(name);
  return {
    name,
    verbs: stub,
    hooks: () => hooks.get(name) ?? [],
    ended: (submissionId: string) =>
      until(async () => {
        const found = await stub()
          .inspectSubmission(submissionId)
          .catch(() => null);
        return found?.status !== "pending" && found?.status !== "running" && found;
      }),
    running: (submissionId: string) =>
      until(async () => (await stub().inspectSubmission(submissionId))?.status === "running"),
    crash: () =>
      runInDurableObject(stub() as unknown as DurableObjectStub, (_, ctx) =>
        ctx.abort("crash"),
      ).catch(() => {}),
    texts: async () => {
      const messages: UIMessage[] = await stub().threadMessages("main");
      return messages.map(
        ({ role, parts }) =>
          `${role}: ${parts.map((part) => (part.type === "text" ? part.text : "")).join("")}`,
      );
    },
  };
}

/** A client of a ChatApp. */
export function client(name: string) {
  return clientOf(env.ChatApp.getByName(name));
}
