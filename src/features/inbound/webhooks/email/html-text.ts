/** The text of HTML, for an e-mail that has no other. Takes linear time for any input. Pure. */

const BLOCK = /^\/?(p|div|br|tr|li|ul|ol|h[1-6]|table|blockquote|pre|hr|section|article)$/;
const ENTITY = /&(?:#(\d{1,7})|#x([\da-f]{1,6})|(amp|lt|gt|quot|apos|nbsp));/gi;
const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
};

export function textOfHtml(html: string): string {
  const lower = html.toLowerCase();
  const pieces: string[] = [];
  let at = 0;
  for (;;) {
    const open = html.indexOf("<", at);
    pieces.push(html.slice(at, open === -1 ? undefined : open).replace(/\s+/g, " "));
    if (open === -1) break;
    const isComment = html.startsWith("<!--", open);
    const close = html.indexOf(isComment ? "-->" : ">", open + 1);
    if (close === -1) break;
    const name = /^\/?[a-z\d]{1,20}/.exec(lower.slice(open + 1, open + 22))?.[0] ?? "";
    if (BLOCK.test(name)) pieces.push("\n");
    at = close + (isComment ? 3 : 1);
    if (name === "script" || name === "style" || name === "title") {
      const end = lower.indexOf(`</${name}`, at);
      if (end === -1) break;
      at = end;
    }
  }
  const text = pieces.join("").replace(ENTITY, (_, decimal, hex, named) => {
    if (named !== undefined) return NAMED[String(named).toLowerCase()] ?? "";
    const code = Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10);
    return code <= 0x10ffff && code > 0 ? String.fromCodePoint(code) : "";
  });
  const lines = text.split("\n").map((line) => line.trim());
  return lines
    .filter((line, n) => line !== "" || lines[n - 1] !== "")
    .join("\n")
    .trim();
}
