/**
 * A crash at every write and delivery of what workflows wait for besides
 * turns: each gate is closed once, told of once, and what is under way for it
 * is gone on with or stopped. What is played is in `matrix/gates.ts`.
 */

import { Approvals, Gates } from "../../src/waits/index.ts";
import { GATE_PLANS } from "../matrix/gates.ts";
import { playMatrix } from "../matrix/matrix.ts";

const READS = "reads only";

playMatrix("W1 W2 W3 W5 O1", GATE_PLANS, {
  owners: { Gates, Approvals },
  harmless: {
    "Gates.install": "in the constructor, before anything is stored",
    "Gates.onStart": "each life begins with it",
    "Gates.read": READS,
    "Gates.find": READS,
    "Gates.list": READS,
    "Gates.inside": READS,
    "Approvals.list": READS,
    "Approvals.inspect": READS,
  },
});
