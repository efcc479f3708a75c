/** An agent dies at any write or delivery of what its workflows wait for besides turns: see `matrix/think-waits.ts`. */

import { playMatrix } from "../../support/crash-think.ts";
import { WAITS } from "./crash-waits-scenarios.ts";

playMatrix(WAITS);
