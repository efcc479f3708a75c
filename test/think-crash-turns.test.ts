/** An agent dies at any write or delivery of what its callers ask for: see `matrix/think-turns.ts`. */

import { TURNS } from "./matrix/think-turns.ts";
import { playMatrix } from "./support/think-matrix.ts";

playMatrix(TURNS);
