/** No object of a file is left to the next file: its alarms would go on beside all later ones, and slow them down. */

import { reset } from "cloudflare:test";
import { afterAll } from "vitest";

afterAll(reset);
