/** The few browser types that the page needs. The full DOM types conflict with those of Workers. */
declare const document: { getElementById(id: string): Element | null };
