/** After each test: what one of them does to time and chance is not left to the next. */

import { afterEach } from "vitest";
import { resetClock } from "../support/objects/ledger-object.ts";

afterEach(resetClock);
