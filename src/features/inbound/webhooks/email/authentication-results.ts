/**
 * Parses the header Authentication-Results. Pure.
 * https://www.rfc-editor.org/rfc/rfc8601
 */

type Result = {
  readonly method: string;
  readonly result: string;
  /** E.g. `header.from`. In lower case. */
  readonly properties: ReadonlyMap<string, string>;
};

type Parsed = { readonly server: string; readonly results: readonly Result[] };

/** Undefined for a header that is not well-formed. */
export function parseResults(header: string): Parsed | undefined {
  const [head, ...sections] = sectionsOf(header) ?? [];
  const server = /^ ?([\w.:-]+)(?: \d+)? ?$/.exec(head ?? "")?.[1]?.toLowerCase();
  if (server === undefined) return undefined;
  const results = sections.flatMap((section): Result[] => {
    const [start, method, result] =
      /^ ?([a-z][a-z\d-]*)(?: ?\/ ?\d+)? ?= ?([a-z]+)(?= |$)/i.exec(section) ?? [];
    if (start === undefined || !method || !result) return [];
    const properties = new Map<string, string>();
    for (const [, type, name, value] of section.slice(start.length).matchAll(PROPERTY)) {
      properties.set(`${type}.${name}`.toLowerCase(), (value ?? "").toLowerCase());
    }
    return [{ method: method.toLowerCase(), result: result.toLowerCase(), properties }];
  });
  return { server, results };
}

const PROPERTY = / ([a-z]+) ?\. ?([a-z\d_-]+) ?= ?([^ ]+)/gi;

/**
 * The texts between semicolons, without comments and with single spaces. Characters with a meaning are replaced in quoted
 * texts. Undefined: a quoted text or a comment has no end, or ends without a start.
 */
function sectionsOf(header: string): string[] | undefined {
  const sections: string[] = [];
  let text = "";
  let comments = 0;
  let isQuoted = false;
  for (let at = 0; at < header.length; at++) {
    let char = header[at] ?? "";
    const isEscaped = char === "\\" && (isQuoted || comments > 0);
    if (isEscaped) char = header[++at] ?? "";
    if (isQuoted) {
      if (char === '"' && !isEscaped) isQuoted = false;
      else text += /[\w.@:+-]/.test(char) ? char : "\uFFFD";
    } else if (comments > 0) {
      if (isEscaped) continue;
      if (char === "(") comments++;
      if (char === ")") comments--;
    } else if (char === "(") {
      comments++;
      text += " ";
    } else if (char === ")") {
      return undefined;
    } else if (char === '"') {
      isQuoted = true;
    } else if (char === ";") {
      sections.push(text);
      text = "";
    } else {
      text += char;
    }
  }
  if (isQuoted || comments > 0) return undefined;
  return [...sections, text].map((section) => section.replace(/\s+/g, " "));
}
