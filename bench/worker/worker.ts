/** The worker of the bench: Perdure and Think's own implementation in one isolate, and the requests of the script. */

import { requests } from "./requests.ts";
import { served } from "./served.ts";

export { BuiltInBench } from "./built-in.ts";
export { CountedKeeper, TurnObject } from "./limited-turns.ts";
export { LoadedLedger } from "./loaded-ledger.ts";
export { LoadedScheduler } from "./loaded-scheduler.ts";
export { PerdureAgent } from "./perdure-agent.ts";
export { PlainAgent } from "./plain-agent.ts";
export { BuiltInPrompts, Echo, EnginePairs, PerdurePrompts } from "./workflows.ts";

export default served(requests);
