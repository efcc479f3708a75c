/** The contract: the guarantees that every host keeps, tested by the same code. */

import { describe } from "vitest";
import { crashContract, crashedSubAgents } from "./crash.ts";
import { type ContractHost, titleOf } from "./host.ts";
import { limitsContract } from "./limits.ts";
import { streamsContract } from "./streams.ts";
import { submissionsContract } from "./submissions.ts";
import { workflowsContract } from "./workflows.ts";

export function contract(host: ContractHost): void {
  describe(titleOf(host), () => {
    submissionsContract(host);
    workflowsContract(host);
    streamsContract(host);
    limitsContract(host);
  });
  if (host.isSubAgent) crashedSubAgents(host);
  else crashContract(host);
}
