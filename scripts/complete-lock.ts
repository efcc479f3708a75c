/**
 * Adds the native packages of other platforms to package-lock.json. With a registry mirror that has only some of them, npm
 * writes a lock that `npm ci` refuses ("Missing: @biomejs/cli-darwin-arm64@ from lock file"). The packages that need them have
 * exact versions, so the script adds the entries without a registry, and without an integrity hash.
 * Run it after each `npm install` that changed the lock: `npm run fix:lock`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

interface LockEntry {
  version?: string;
  os?: string[];
  cpu?: string[];
  libc?: string[];
  dev?: boolean;
  optional?: boolean;
  optionalDependencies?: Record<string, string>;
}

const OS = [
  "aix",
  "android",
  "darwin",
  "freebsd",
  "linux",
  "netbsd",
  "openbsd",
  "openharmony",
  "sunos",
  "win32",
];
const CPU = ["arm64", "arm", "ia32", "loong64", "ppc64", "riscv64", "s390x", "wasm32", "x64"];
const ALIAS: Record<string, string> = { "64": "x64", windows: "win32" };

const lockFile = path.join(import.meta.dirname, "../package-lock.json");
const lock = JSON.parse(readFileSync(lockFile, "utf8")) as { packages: Record<string, LockEntry> };
const packages = lock.packages;

/** Where Node would look for `name` from `parent`, innermost first; the folder npm would have used comes out first or last. */
function placesOf(name: string, parent: string): string[] {
  const places = [`${parent}/node_modules/${name}`];
  const folders = parent.split("node_modules/").slice(0, -1);
  while (folders.length > 0) {
    places.push(`${folders.join("node_modules/")}node_modules/${name}`);
    folders.pop();
  }
  return places;
}

/** An entry that only its own platform installs; undefined when the name does not have the platform. */
function entryFor(name: string, version: string): LockEntry | undefined {
  const words = (name.split("/").at(-1) ?? "").split("-").map((word) => ALIAS[word] ?? word);
  const os = OS.find((candidate) => words.includes(candidate));
  const cpu = CPU.find((candidate) => words.includes(candidate));
  if (cpu === undefined || (os === undefined && cpu !== "wasm32")) return undefined;
  const libc = words.includes("musl") ? "musl" : words.includes("gnu") ? "glibc" : undefined;
  return {
    version,
    cpu: [cpu],
    dev: true,
    ...(libc !== undefined && { libc: [libc] }),
    optional: true,
    ...(os !== undefined && { os: [os] }),
  };
}

const added: string[] = [];
const unknown: string[] = [];
for (const [parent, { optionalDependencies = {} }] of Object.entries(packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    const places = placesOf(name, parent);
    const found = places.find((place) => packages[place] !== undefined);
    if (found !== undefined && (packages[found]?.version === version || !/^\d/.test(version)))
      continue;
    const entry = /^\d+\.\d+\.\d+/.test(version) ? entryFor(name, version) : undefined;
    if (entry === undefined) {
      unknown.push(`${name}@${version}, wanted by ${parent || "the root"}`);
      continue;
    }
    const place = (found === undefined ? places.at(-1) : places[0]) as string;
    packages[place] = entry;
    added.push(place);
  }
}

lock.packages = Object.fromEntries(
  Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, "en")),
);
if (added.length > 0) writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`${added.length} entries added`);
for (const line of unknown) console.log(`skipped: ${line}`);
