/** Kinds of destinations of which a test does a part itself. */

import type { Adapter, DestinationKind } from "../../src/outbox/destinations/adapter.ts";
import { KINDS } from "../../src/outbox/destinations/kinds.generated.ts";

type Kinds = Readonly<Record<string, DestinationKind>>;
type Parts = Readonly<Record<string, Partial<Adapter<never>>>>;

/** The kinds that the test has parts of, for `outbox.install()`. By default they are those of the outbox. */
export function kindsWith(parts: Parts, kinds: object = KINDS): Kinds {
  return Object.fromEntries(
    Object.entries(parts).map(([name, part]) => {
      const { schema, connect } = (kinds as Kinds)[name] as DestinationKind;
      return [name, { schema, connect: (context) => ({ ...connect(context), ...part }) }];
    }),
  );
}
