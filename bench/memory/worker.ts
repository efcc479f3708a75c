/** A worker with only a ledger: with Think, a heap snapshot takes a minute. */

import { ledgerRequests } from "../worker/ledger-requests.ts";
import { served } from "../worker/served.ts";

export { LoadedLedger } from "../worker/loaded-ledger.ts";

export default served(ledgerRequests);
