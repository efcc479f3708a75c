/** The tools that an agent's class declares, by their names in the records of calls. */

import { TimeoutError, withTimeout } from "../../../core/clock.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";

/** How long `getTools()` may take. */
const LIMIT_MS = 10_000;

/** As `durableTool()` marks a tool: its records have this name. */
const DURABLE = Symbol.for("perdure.durableTool");

type Declared = {
  readonly getTools?: () => object | Promise<object>;
  readonly durable?: unknown;
};

export type Declaring = Pick<Kernel, "object" | "submissions">;

/**
 * The tools of `getTools()`, which `DurableThink` and `DurableAgent` have. Undefined for a host that knows the tools of a turn alone:
 * a chat and a plain object. Tools of MCP servers, of the workspace and of `beforeTurn()` are not among them.
 *
 * @throws what `getTools()` throws, TimeoutError
 */
export async function toolsOf({
  object,
  submissions,
}: Declaring): Promise<ReadonlySet<string> | undefined> {
  const { getTools, durable } = object as Declared;
  // A chat has other tools in its own conversation: what `onChatMessage()` gives to `this.durable()`.
  if (typeof getTools !== "function" || typeof durable === "function") return undefined;
  const declared = submissions.loop.inHostContext(async () => getTools.call(object));
  const tools = await withTimeout(declared, LIMIT_MS).catch((error: unknown) => {
    const late = "getTools() did not resolve within 10 seconds. It must not wait for a turn.";
    throw error instanceof TimeoutError ? new TimeoutError(late) : error;
  });
  const names = Object.entries(tools ?? {}).map(([key, tool]) => {
    const durable = (Object(tool) as { [DURABLE]?: { readonly name: string } })[DURABLE];
    return durable?.name ?? key;
  });
  return new Set(names);
}
