/** What a folder's names and settings put into notifications stays text. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { notice } from "../src/notice.ts";

test("a link is shown as the text that it is", () => {
  const text = notice("no device [press](command:workbench.action.quit) of yours [x](https://a.b)");
  assert.equal(text, "no device [press] (command:workbench.action.quit) of yours [x] (https://a.b)");
});

test("what the server says goes through it", () => {
  for (const [file, call] of [
    ["status.ts", "showErrorMessage(notice("],
    ["device_picker.ts", "showWarningMessage(notice("],
    ["consent.ts", "showInformationMessage(notice("],
  ] as const) {
    const source = readFileSync(new URL(`../src/${file}`, import.meta.url), "utf8").replace(/\s+/g, "");
    assert.ok(source.includes(call), `${file} shows text of others as it is`);
  }
});
