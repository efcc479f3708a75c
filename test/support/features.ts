/** For agents of tests that use more than one feature. */

import { operations } from "perdure/operator";
import { replies } from "perdure/replies";
import { followers } from "perdure/streams";

/** All features of Perdure, with their defaults. */
export const ALL = [operations(), followers(), replies()];
