/** What the modules contribute for operators where the agent runs, of `operated/part.ts` of each. */

import type { OperatedPart } from "../core/operated/part.ts";
import type { OperatedAgent } from "./operated.ts";
import { PARTS as BY_NAME } from "./part.generated.ts";
import type { Finding } from "./protocol.ts";

export type Part = OperatedPart<OperatedAgent, Finding> & { readonly name: string };

export const PARTS: readonly Part[] = Object.entries<Omit<Part, "name">>(BY_NAME).map(
  ([name, part]) => ({ name, ...part }),
);
