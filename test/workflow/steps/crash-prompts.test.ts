/** An agent dies at any write or delivery of the prompts of its workflows: see `matrix/think-prompts.ts`. */

import { PROMPTS } from "../../matrix/think-prompts.ts";
import { playMatrix } from "../../support/think-matrix.ts";

playMatrix(PROMPTS);
