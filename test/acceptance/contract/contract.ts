/** Every guarantee that a host keeps, but for limits across agents: `limits.test.ts`. */

import { describe } from "vitest";
import type { Host } from "../app/hosts.ts";
import { answersContract } from "./answers.ts";
import { approvalsContract } from "./approvals.ts";
import { arrivalsContract } from "./arrivals.ts";
import { deliveriesContract } from "./deliveries.ts";
import { followersContract } from "./followers.ts";
import { schedulesContract } from "./schedules.ts";
import { submissionsContract } from "./submissions.ts";
import { toolsContract } from "./tools.ts";
import { workflowsContract } from "./workflows.ts";

export function contract(host: Host): void {
  describe(host.title, () => {
    submissionsContract(host);
    answersContract(host);
    toolsContract(host);
    deliveriesContract(host);
    workflowsContract(host);
    approvalsContract(host);
    followersContract(host);
    arrivalsContract(host);
    schedulesContract(host);
  });
}
