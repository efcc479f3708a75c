/**
 * Checks the files of the package. The declarations of an entry import only packages that its users install. Links of shipped pages to the repository are relative, and their targets ship too. Links of
 * other pages have existing targets. Where a page for users names a script of the repository, it says so. Source maps contain their sources; declaration maps do not ship. Except dist/, nothing
 * ships that git ignores, e.g. `.dev.vars`.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "..");
/** Optional packages, and the entries whose declarations may import them. */
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  "@cloudflare/think": ["./think", "./codemode"],
  "@cloudflare/ai-chat": ["./chat"],
  "@modelcontextprotocol/server": ["./mcp"],
  react: ["./react"],
};

const packed = new Set(packedFiles());
const known = new Set(repositoryFiles());
const problems = [
  ...[...known].filter((file) => file.endsWith(".md")).flatMap(problemsOfPage),
  ...[...packed]
    .filter((file) => /^(README|docs\/.*|examples\/.*)\.md$/.test(file))
    .flatMap(problemsOfScripts),
  ...[...packed].flatMap(problemsOfPacked),
  ...problemsOfTypes(),
  ...problemsOfScriptsAtInstall(),
];
for (const problem of problems) console.log(problem);
console.log(`${packed.size} files in the package, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

function packedFiles(): string[] {
  const output = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [{ files }] = JSON.parse(output) as [{ files: { path: string }[] }];
  return files.map((file) => file.path);
}

/** npm warns each user of a package that has one. In a clone, `dependencies` runs after an install, and not in a package. */
function problemsOfScriptsAtInstall(): string[] {
  const { scripts } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const names = ["preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare"];
  const found = names.filter((name) => name in scripts);
  return found.map((name) => `package.json: npm warns users of the script ${name}`);
}

/** Files that git tracks or does not ignore. */
function repositoryFiles(): string[] {
  const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], {
    cwd: root,
    encoding: "utf8",
  });
  return listed.split("\0").filter((file) => file !== "" && existsSync(path.join(root, file)));
}

function problemsOfPage(page: string): string[] {
  const text = readFileSync(path.join(root, page), "utf8");
  return [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(({ 1: link = "", index }) => {
    const problem = problemOfLink(page, link);
    return problem === undefined
      ? []
      : [`${page}:${text.slice(0, index).split("\n").length}  ${link}: ${problem}`];
  });
}

/** Scripts that users do not have, in sections that do not name the repository. */
function problemsOfScripts(page: string): string[] {
  const { scripts } = JSON.parse(
    readFileSync(path.join(root, "examples/starter/package.json"), "utf8"),
  ) as { scripts: Record<string, string> };
  const sections = readFileSync(path.join(root, page), "utf8").split(/^(?=#+ )/m);
  return sections.flatMap((section) => {
    if (/\brepository\b/.test(section)) return [];
    const named = section.matchAll(/\bnpm (?:run ([\w:-]+)|ci)\b/g);
    return [...named].flatMap(([command, script = ""]) =>
      scripts[script] ? [] : [`${page}  ${command}: users do not have it. Say "in the repository"`],
    );
  });
}

function problemOfLink(page: string, link: string): string | undefined {
  if (/^[a-z]+:/.test(link)) return undefined;
  const [file = "", anchor] = link.split("#");
  const linked = file === "" ? page : path.posix.join(path.posix.dirname(page), file);
  if (linked.startsWith("..")) return "is outside of the repository";
  // A folder is shown by its README.
  const target = /\.\w+$|LICENSE$/.test(linked) ? linked : path.posix.join(linked, "README.md");
  if (!existsSync(path.join(root, target))) return `${target} does not exist`;
  if (packed.has(page) && !packed.has(target)) {
    return `${target} is not in the package: add it to "files" of package.json`;
  }
  if (anchor === undefined || anchorsOf(target).includes(anchor)) return undefined;
  return `${target} has no heading "${anchor}"`;
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: string): string[] {
  const headings = withoutCode(readFileSync(path.join(root, page), "utf8")).matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading = ""]) =>
    heading
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** Replaces code by empty lines, so that line numbers do not change. */
function withoutCode(markdown: string): string {
  const blank = (code: string) => code.replaceAll(/[^\n]/g, " ");
  return markdown.replaceAll(/^ *```.*?^ *```/gms, blank).replaceAll(/^ {4}.*$/gm, blank);
}

function problemsOfPacked(file: string): string[] {
  if (!file.startsWith("dist/")) return known.has(file) ? [] : [`${file}  is ignored by git`];
  if (/\.d\.[cm]?ts\.map$/.test(file)) return [`${file}  is a map of declarations`];
  if (!file.endsWith(".js.map")) return [];
  const { sources, sourcesContent } = JSON.parse(readFileSync(path.join(root, file), "utf8"));
  const isWhole = sources.length === sourcesContent?.filter(Boolean).length;
  return isWhole ? [] : [`${file}  is without its sources`];
}

/** Before a build there are no declarations. */
function problemsOfTypes(): string[] {
  const { exports } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as {
    exports: Record<string, { types?: string }>;
  };
  return Object.entries(exports).flatMap(([entry, { types }]) => {
    if (types === undefined || !existsSync(path.join(root, types))) return [];
    const wrong = [...importsOf(path.join(root, types), new Set())].filter(
      (name) => OPTIONAL[name] && !OPTIONAL[name].includes(entry),
    );
    return wrong.map((name) => `${types}  imports ${name}, which users of ${entry} do not install`);
  });
}

/** The packages that declarations import, also through other declarations. */
function importsOf(file: string, seen: Set<string>): Set<string> {
  const found = new Set<string>();
  if (seen.has(file) || !existsSync(file)) return found;
  seen.add(file);
  for (const [, name = ""] of readFileSync(file, "utf8").matchAll(
    /\b(?:from|import)\s*"([^"]+)"/g,
  )) {
    if (!name.startsWith(".")) found.add(name);
    else {
      const next = path.join(path.dirname(file), name.replace(/\.js$/, ".d.ts"));
      for (const each of importsOf(next, seen)) found.add(each);
    }
  }
  return found;
}
