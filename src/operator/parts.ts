/** What the modules contribute for operators where the agent runs, of `operated/part.ts` of each. */

import type { OperatedPart } from "../engine/operated/part.ts";
import type { OperatedAgent } from "./operated.ts";
import { PARTS as BY_NAME } from "./part.generated.ts";
import type { Finding } from "./protocol.ts";

export type Part = OperatedPart<OperatedAgent, Finding> & { readonly name: string };

// A part has a type of its own for the agent: the verbs that it calls.
const entries = Object.entries(BY_NAME) as unknown as readonly [string, Omit<Part, "name">][];

export const PARTS: readonly Part[] = entries.map(([name, part]) => ({ name, ...part }));
