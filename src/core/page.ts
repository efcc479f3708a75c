/** A page of a list. */
export type Page<Item> = {
  readonly items: readonly Item[];
  /** Pass it to get the next page. Left out on the last one. A page can be shorter than its limit, or empty, and not the last. */
  readonly cursor?: string;
};

/** Which page of a list: at most so many items, after the page that had the cursor. Each list has its own default and limit. */
export type PageOptions = {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
};
