/** For agents of tests that use more than one feature. */

import { operations } from "perdure/operator";
import { followers } from "perdure/streams";

/** All features of Perdure, with their defaults. */
export const ALL = [operations(), followers()];
