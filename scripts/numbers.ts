/** Prints the size of each layer of src/: lines with comments and blanks, files, classes, and how many lines are comments. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { LAYERS } from "./modules.ts";

const SRC = path.join(import.meta.dirname, "../src");

function measure(folder: string) {
  const files = readdirSync(path.join(SRC, folder), { recursive: true, encoding: "utf8" }).filter(
    (file) => /\.tsx?$/.test(file) && !file.includes(".generated."),
  );
  const texts = files.map((file) => readFileSync(path.join(SRC, folder, file), "utf8"));
  const lines = texts.flatMap((text) => text.trimEnd().split("\n"));
  const comments = lines.filter((line) => /^\s*(\/\*|\*|\/\/)/.test(line)).length;
  const classes = lines.filter((line) => /^(export )?(abstract )?class /.test(line)).length;
  return { lines: lines.length, files: files.length, classes, comments };
}

const layers = Object.fromEntries(Object.keys(LAYERS).map((layer) => [layer, measure(layer)]));
console.table({ ...layers, src: measure(".") });
