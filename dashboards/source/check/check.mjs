// Holds dashboards against the types that Grafana publishes:
//
//     node check.mjs FOLDER_WITH_NODE_MODULES DASHBOARD.json…

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";

const [installed, ...dashboards] = process.argv.slice(2);
const folder = resolve(installed);
const ts = createRequire(join(folder, "package.json"))("typescript");

// They are taken for files of that folder, so that they find its packages.
const sources = new Map(
  dashboards.map((file) => [
    join(folder, basename(file, ".json") + ".ts"),
    `import type { Board } from "./types";\nexport const board: Board = ${readFileSync(file)};\n`,
  ]),
);
const boards = [...sources.keys()];
sources.set(join(folder, "types.ts"), readFileSync(new URL("types.ts", import.meta.url), "utf8"));

const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
};
const host = ts.createCompilerHost(options);
const { fileExists, readFile } = host;
host.fileExists = (file) => sources.has(file) || fileExists(file);
host.readFile = (file) => sources.get(file) ?? readFile(file);

const mistakes = ts.getPreEmitDiagnostics(ts.createProgram(boards, options, host));
console.log(ts.formatDiagnostics(mistakes, host));
process.exit(mistakes.length > 0 || boards.length === 0 ? 1 : 0);
