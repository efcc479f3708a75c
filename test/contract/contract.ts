/** The contract of the hosts that run a harness. Every other host is tested in `test/acceptance`. */

import { describe } from "vitest";
import { crashContract } from "./crash.ts";
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
  crashContract(host);
}
