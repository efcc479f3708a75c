/**
 * A crash at every write and every delivery of every scenario of the outbox, and again during the recovery. No accepted
 * event is lost, and no rolled-back event is delivered. The scenarios are in `matrix/outbox.ts`.
 */

import { Outbox } from "../../src/outbox/index.ts";
import { playMatrix } from "../support/crash-matrix.ts";
import { OUTBOX } from "./crash-scenarios.ts";
import { WORKFLOW_STARTS } from "./destinations/workflow-start-crash.test.ts";

const READS = "reads only";

playMatrix(
  "O1 O2 O3 O4 O5 W6",
  { ...OUTBOX, ...WORKFLOW_STARTS },
  {
    owners: { Outbox },
    harmless: {
      "Outbox.onStart": "runs at each start of the object",
      "Outbox.wake": "the alarm, which wakes every scenario",
      "Outbox.problemOf": "reads a destination, and no row",
      "Outbox.isGone": "asks the destination",
      "Outbox.enqueue":
        "put() of other modules: the scenarios of the ledger and of the waits play it",
      "Outbox.flush":
        "starts to deliver what is stored: the scenarios of the ledger and of the waits play it",
      "Outbox.isBusy": READS,
      "Outbox.inspect": READS,
      "Outbox.stateOf": READS,
      "Outbox.read": READS,
      "Outbox.stats": READS,
      "Outbox.listDeliveries": READS,
      "Outbox.listDeadLetters": READS,
      "Outbox.countDeadLetters": READS,
      "Outbox.listEndpoints": READS,
      "Outbox.inspectEndpoint": READS,
    },
  },
);
