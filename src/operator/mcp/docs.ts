/** Searches the packaged documentation. */

import MiniSearch from "minisearch";
import { SECTIONS } from "./docs.generated.ts";

export type DocsSection = {
  /** E.g. `docs/schedules.md`. */
  readonly page: string;
  readonly heading: string;
  /** Cut after 6,000 characters. */
  readonly text: string;
};

const MAX_TEXT = 6_000;

let index: MiniSearch | undefined;

/** The sections that match best, the best first. Words may be misspelt, or be the beginning of a word. */
export function searchDocs(query: string, limit: number): DocsSection[] {
  if (!index) {
    const fields = ["page", "heading", "text"];
    const searchOptions = { boost: { heading: 3, page: 2 }, fuzzy: 0.2, prefix: true };
    index = new MiniSearch({ fields, searchOptions });
    index.addAll(SECTIONS.map(([page, heading, text], id) => ({ id, page, heading, text })));
  }
  return index
    .search(query)
    .slice(0, limit)
    .map(({ id }) => {
      const [page, heading, text] = SECTIONS[id as number] as (typeof SECTIONS)[number];
      return { page, heading, text: text.slice(0, MAX_TEXT) };
    });
}
