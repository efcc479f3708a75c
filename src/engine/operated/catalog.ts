/**
 * What a module tells operators as data: its findings, actions and lists, each by its name. The operator makes of it the types
 * of the API, the commands of `npx perdure`, the tools for assistants and the page. No imports of values: clients load it.
 */

import type { Json } from "../../core/json.ts";

/** `starts`: does work start? `succeeds`: does it succeed? `delivers`: is it delivered? `onTime`: does it run on time? */
export type Question = "starts" | "succeeds" | "delivers" | "onTime";

/** The causes that a module's rules find, each with the question that it answers with no. */
export type FindingCatalog = Readonly<Record<string, Question | null>>;

/**
 * A step to begin from: its name, and which of the steps of this name; the one that failed, or at which the run stands; or the
 * start of the run.
 */
export type FromStep = { readonly name: string; readonly count?: number } | "failed" | "start";

/**
 * What a field holds: an id, a key that may be empty, a URL, a time in epoch milliseconds, any JSON, or a step of a workflow. The
 * last two may be left out. An action with a time `from` has a time `to` after it.
 */
type FieldTypes = {
  id: string;
  key: string;
  url: string;
  time: number;
  json: Json;
  step: FromStep;
};

/** A field of an action: its kind, and a phrase for the help of commands and for assistants, e.g. "the id of the task". */
type Field = readonly [kind: keyof FieldTypes, means: string];

export type Definition = {
  /** On the page's button. */
  readonly label: string;
  /** One or two sentences. */
  readonly does: string;
  /** The fields that name its target. */
  readonly fields: Readonly<Record<string, Field>>;
  /** It also works on all that a filter of this list selects. */
  readonly filter?: string;
  /** The statuses that it changes. Undefined: any. */
  readonly statuses?: readonly string[];
  /** Whether it changes what has not failed, so that no filter selects by a cause. */
  readonly isOfOpen?: true;
  /** Set for an action that cannot be undone: the command line asks first. */
  readonly loss?: string;
  /** Whether a dry run on one item lists the steps that run again, which is shown before it is done. */
  readonly repeats?: true;
  /** Whether something is lost that no other action brings back: the page's button is red, and assistants get a hint. */
  readonly isDestructive?: true;
  /** Whether the same once more changes nothing: a hint for assistants. */
  readonly isIdempotent?: true;
  /** Assistants have no tool for it. One that is an agent could approve what it has asked for itself. */
  readonly isForPeople?: true;
};

export type ActionCatalog = Readonly<Record<string, Definition>>;

/** Only failures with these causes, up to 20: the actions of findings have them. Not for `cancel`. */
type ByCause = { readonly cause?: string | readonly string[] };

type Optional<Of extends Definition["fields"]> = {
  [Name in keyof Of]: Of[Name][0] extends "json" | "step" ? Name : never;
};
type Fields<Of extends Definition["fields"]> = {
  readonly [Name in keyof Of as Exclude<Name, Optional<Of>[keyof Of]>]: FieldTypes[Of[Name][0]];
} & { readonly [Name in Optional<Of>[keyof Of]]?: FieldTypes[Of[Name][0]] };
type Flat<Type> = { [Name in keyof Type]: Type[Name] };

/** On one item. */
export type OnOne<Catalog extends ActionCatalog, Name extends keyof Catalog = keyof Catalog> = {
  [Do in Name]: Flat<{ readonly do: Do } & Fields<Catalog[Do]["fields"]>>;
}[Name];

/** The fields that an action with a filter has, too. */
type Steps<Of extends Definition["fields"]> = {
  readonly [Name in keyof Of as Of[Name][0] extends "step" ? Name : never]?: FromStep;
};

/** On all that a filter selects. */
export type OnMany<
  Catalog extends ActionCatalog,
  Filters,
  Name extends keyof Catalog = keyof Catalog,
> = {
  [Do in Name]: Catalog[Do] extends { readonly filter: infer List extends keyof Filters }
    ? Flat<
        { readonly do: Do; readonly filter: Filters[List] & ByCause } & Steps<Catalog[Do]["fields"]>
      >
    : never;
}[Name];

/** The actions of a catalog. */
export type ActionOf<Catalog extends ActionCatalog, Filters> =
  | OnOne<Catalog>
  | OnMany<Catalog, Filters>;
