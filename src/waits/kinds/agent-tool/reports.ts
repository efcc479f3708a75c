/** What a child reports while it runs, read from its stream. Decides nothing about its end. */

import type { Json } from "../../../core/json.ts";
import type { AgentToolProgress } from "./types.ts";

/** The parts of a child's stream that are reports, as agents document them. */
const PROGRESS_PART = "data-agent-progress";
const MILESTONE_PART = "data-agent-milestone";

/** A report, as a workflow's progress has it; a milestone has its number within the run. */
export type Report = Pick<
  AgentToolProgress,
  "message" | "percent" | "phase" | "milestone" | "data"
> & { sequence?: number };

/** The reports among the child's chunks, until those end. Any other chunk is passed over. */
export async function* reportsOf(chunks: AsyncIterable<unknown>): AsyncGenerator<Report> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of chunks) {
    if (!(chunk instanceof Uint8Array)) {
      // A child in the same isolate may hand its chunks over as they are.
      yield* reportIn((chunk as { body?: unknown } | null)?.body);
      continue;
    }
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) yield* reportIn(bodyOf(line));
  }
}

function bodyOf(line: string): unknown {
  return (parsed(line) as { body?: unknown } | undefined)?.body;
}

function* reportIn(body: unknown): Generator<Report> {
  const part = parsed(body) as { type?: unknown; data?: Record<string, Json> } | undefined;
  const { type, data = {} } = part ?? {};
  const isMilestone = type === MILESTONE_PART;
  if (!isMilestone && type !== PROGRESS_PART) return;
  const { fraction, message, phase, name, sequence } = data;
  yield {
    ...(typeof message === "string" && { message }),
    ...(typeof fraction === "number" && { percent: fraction }),
    ...(typeof phase === "string" && { phase }),
    ...(isMilestone && typeof name === "string" && { milestone: name }),
    ...(isMilestone && typeof sequence === "number" && { sequence }),
    ...(data.data !== undefined && { data: data.data }),
  };
}

/** Undefined for what is no JSON: a line that this version of the child's class does not write. */
function parsed(text: unknown): unknown {
  if (typeof text !== "string" || text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
