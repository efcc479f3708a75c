/**
 * A crash at every write and delivery of what workflows wait for besides
 * turns: each wait is closed once, told of once, and what is under way for it
 * is gone on with or stopped. What is played is in `matrix/waits.ts`.
 */

import { Approvals, Waits } from "../../src/waits/index.ts";
import { playMatrix } from "../support/crash-matrix.ts";
import { WAIT_PLANS } from "./crash-scenarios.ts";

const READS = "reads only";

playMatrix("W1 W2 W3 W5 O1", WAIT_PLANS, {
  owners: { Waits, Approvals },
  harmless: {
    "Waits.install": "in the constructor, before anything is stored",
    "Waits.kind": READS,
    "Waits.check": READS,
    "Waits.onStart": "each life begins with it",
    "Waits.read": READS,
    "Waits.find": READS,
    "Waits.list": READS,
    "Waits.inside": READS,
    "Approvals.list": READS,
    "Approvals.inspect": READS,
  },
});
