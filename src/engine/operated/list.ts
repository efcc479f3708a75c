/** A list of a module for operators: what it shows, by what it is filtered, and what an operator can do. */

/**
 * A value that is no text of its own: a word with a colour, a time, a length of time, how much of an amount is used ({@link Gauge}).
 * The page cuts ids.
 */
type Shown = "text" | "id" | "status" | "time" | "duration" | "gauge";
export type Gauge = { readonly used: number; readonly amount: number; readonly allowed?: number };
/** How a value is shown, the value, and after how many characters it is cut. */
export type Column<Item> = readonly [as: Shown, of: (item: Item) => unknown, most?: number];

/** What a filter takes: a text, one or more texts, an instant, a flag, JSON, a value for each key, or some of a few words. */
export type FilterKind =
  | "text"
  | "texts"
  | "time"
  | "flag"
  | "json"
  | "metadata"
  | readonly string[];

/** The filter and the page of a request. */
export type Query = Readonly<Record<string, unknown>> & {
  readonly limit: number;
  readonly cursor?: string;
};

/** The methods of an object behind a stub. */
export type Called<Verbs> = {
  readonly [Verb in keyof Verbs]: Verbs[Verb] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

export type List<Item, Filter = object, Act = object> = {
  readonly title: string;
  /** Opens it on the page, after `g`. `o` is the overview. */
  readonly letter: string;
  /** Where there is nothing: what would be here, and how it gets here. */
  readonly empty: string;
  readonly id: (item: Item) => string;
  /** By their titles. */
  readonly columns: Readonly<Record<string, Column<Item>>>;
  /** The column whose text opens the item. */
  readonly link: string;
  /** Whether the API has no more of an item than the list. */
  readonly isWhole?: true;
  readonly filters?: { readonly [Name in keyof Required<Filter>]: FilterKind };
  /** The type of a filter. There is no value. */
  readonly filter?: Filter;
  /** What an operator can do with an item. */
  readonly actions?: (item: Item) => readonly Act[];
};
