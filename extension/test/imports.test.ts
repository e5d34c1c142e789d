/** The imports of the extension, types included, have no circles: a reader follows them in one direction. */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

const source = new URL("../src/", import.meta.url);

function importsOf(file: string): readonly string[] {
  const text = fs.readFileSync(new URL(file, source), "utf8");
  return [...text.matchAll(/ from "(\.[^"]+)";/g)].map(
    ([, name]) => `${path.posix.join(path.posix.dirname(file), (name ?? "").replace(/\.ts$/, ""))}.ts`,
  );
}

/** A circle that can be reached from `file`, as the files on it; null without one. */
function circleFrom(
  file: string,
  imports: ReadonlyMap<string, readonly string[]>,
  above: readonly string[],
  done: Set<string>,
): readonly string[] | null {
  if (above.includes(file)) {
    return [...above.slice(above.indexOf(file)), file];
  }
  if (done.has(file)) {
    return null;
  }
  for (const next of imports.get(file) ?? []) {
    const circle = circleFrom(next, imports, [...above, file], done);
    if (circle !== null) {
      return circle;
    }
  }
  done.add(file);
  return null;
}

test("no file of the extension imports itself through others", () => {
  const files = fs
    .readdirSync(source, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(".ts"));
  const imports = new Map(files.map((file) => [file, importsOf(file)]));
  for (const [file, names] of imports) {
    assert.deepEqual(
      names.filter((name) => !imports.has(name)),
      [],
      file,
    );
  }
  const done = new Set<string>();
  for (const file of files) {
    assert.equal(circleFrom(file, imports, [], done)?.join(" -> "), undefined);
  }
});
