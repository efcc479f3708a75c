import type { EndedStore } from "./ended.ts";
import type { EndpointStore } from "./endpoints.ts";
import type { EntryStore } from "./entries.ts";

/** The tables of an outbox. */
export type Stores = {
  readonly entries: EntryStore;
  readonly ended: EndedStore;
  readonly endpoints: EndpointStore;
};
