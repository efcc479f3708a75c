/** A worker with a ledger and nothing else: of Think and its models alone, a look at the heap takes a minute. */

import { ledgerRequests } from "../worker/ledger-requests.ts";
import { served } from "../worker/served.ts";

export { LoadedLedger } from "../worker/loaded-ledger.ts";

export default served(ledgerRequests);
