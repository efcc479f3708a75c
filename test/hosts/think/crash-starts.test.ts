/** An agent dies at any write or delivery of the start of a workflow: see `matrix/think-starts.ts`. */

import { playMatrix } from "../../support/crash-think.ts";
import { STARTS } from "./crash-starts-scenarios.ts";

playMatrix(STARTS);
