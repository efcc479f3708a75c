/** The types of the browser clash with those of Workers, which this project has. The page needs no more of them than this. */
declare const document: { getElementById(id: string): Element | null };
