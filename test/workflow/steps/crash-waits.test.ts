/** An agent dies at any write or delivery of what its workflows wait for besides turns: see `matrix/think-gates.ts`. */

import { GATES } from "../../matrix/think-gates.ts";
import { playMatrix } from "../../support/think-matrix.ts";

playMatrix(GATES);
