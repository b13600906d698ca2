// Bundles src/ into one HTML file: node build.mjs [OUT], by default dist/dashboard.html. The same sources and the same
// package-lock.json give the same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist", "dashboard.html");
const kMostBytes = 100_000;

const result = await build({
  entryPoints: [join(here, "src", "main.tsx"), join(here, "src", "page.css")],
  absWorkingDir: here,
  bundle: true,
  minify: true,
  write: false,
  outdir: "bundle",
  target: "es2020",
  format: "iife",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "css" },
});
const text = (ending) => result.outputFiles.find((file) => file.path.endsWith(ending)).text.trim();
const script = text("main.js"),
  style = text("page.css");
if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error("the bundle would end its own element");

// The policy lets this one script run, which may ask its own daemon only.
const hash = createHash("sha256").update(script).digest("base64");
// The licence of what is bundled asks to stand wherever it does.
const folder = join(here, "node_modules", "preact");
const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
const notice = `preact ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}`;
if (notice.includes("--")) throw new Error("a licence would end its comment");
const page = readFileSync(join(here, "src", "page.html"), "utf8")
  .replace("NOTICE", () => notice)
  .replace("/*STYLE*/", () => style)
  .replace("/*SCRIPT*/", () => script)
  .replace("SCRIPT_HASH", () => `sha256-${hash}`);
if (page.length > kMostBytes) throw new Error(`the page has ${page.length} bytes, more than ${kMostBytes}`);
mkdirSync(dirname(out), { recursive: true });
writeFileSync(out, page);
console.log(`${out}: ${page.length} bytes`);
