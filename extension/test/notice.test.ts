/** Names and settings of a folder stay plain text in notifications. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { notice } from "../src/workbench/notice.ts";

test("a link is shown as text", () => {
  const text = notice("no device [press](command:workbench.action.quit) of yours [x](https://a.b)");
  assert.equal(text, "no device [press] (command:workbench.action.quit) of yours [x] (https://a.b)");
});

test("every message is escaped", () => {
  const sources = new URL("../src/", import.meta.url);
  const names = readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts"),
  );
  const direct = names.filter((name) =>
    /\.show(Information|Warning|Error)Message\(/.test(readFileSync(new URL(name, sources), "utf8")),
  );
  assert.deepEqual(direct, ["workbench/say.ts"]);
  const calls = readFileSync(new URL("workbench/say.ts", sources), "utf8").matchAll(/Message\((\w+)\(/g);
  assert.deepEqual(
    [...calls].map(([, wrapper]) => wrapper),
    ["notice", "notice", "notice", "notice"],
  );
});
