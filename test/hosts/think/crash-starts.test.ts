/** An agent dies at any write or delivery of the start of a workflow: see `matrix/think-starts.ts`. */

import { STARTS } from "../../matrix/think-starts.ts";
import { playMatrix } from "../../support/think-matrix.ts";

playMatrix(STARTS);
