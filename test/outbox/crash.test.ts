/**
 * A crash at every write and delivery of every way that an event can take
 * through the outbox, and again in what comes after a crash. Whatever was
 * committed when, nothing that was accepted is lost, and nothing that was
 * rolled back arrives. What is played is in `matrix/outbox.ts`.
 */

import { Outbox } from "../../src/outbox/index.ts";
import { playMatrix } from "../matrix/matrix.ts";
import { OUTBOX } from "../matrix/outbox.ts";
import { WORKFLOW_STARTS } from "../matrix/workflow-starts.ts";

const READS = "reads only";

playMatrix(
  "O1 O2 O3 O4 O5 W6",
  { ...OUTBOX, ...WORKFLOW_STARTS },
  {
    owners: { Outbox },
    harmless: {
      "Outbox.onStart": "each life begins with it",
      "Outbox.wake": "the room's alarm, which wakes every scenario",
      "Outbox.problemOf": "looks at a destination, and at no row",
      "Outbox.isGone": "asks the destination",
      "Outbox.enqueue":
        "put() of the other rooms: the scenarios of the ledger and of the waits play it",
      "Outbox.flush":
        "begins to deliver what is stored: the scenarios of the ledger and of the waits play it",
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
