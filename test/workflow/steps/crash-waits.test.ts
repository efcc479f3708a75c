/** An agent dies at any write or delivery of what its workflows wait for besides turns: see `matrix/think-waits.ts`. */

import { WAITS } from "../../matrix/think-waits.ts";
import { playMatrix } from "../../support/think-matrix.ts";

playMatrix(WAITS);
