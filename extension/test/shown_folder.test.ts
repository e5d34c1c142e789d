/** Whose status the item shows. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { outside, shownFolder } from "../src/status/shown_folder.ts";

const one = "file:///one";
const two = "file:///two";

test("a folder's own status comes first", () => {
  assert.equal(shownFolder(two, new Set([one, two, outside]), one), two);
});

test("the status of files outside every folder comes next", () => {
  assert.equal(shownFolder(null, new Set([one, outside]), one), outside);
  assert.equal(shownFolder(two, new Set([one, outside]), one), outside);
});

// The preview of a fix, an untitled file, documents of git and of the output panel.
test("a document that no folder has shows the work that was shown last", () => {
  assert.equal(shownFolder(null, new Set([one, two]), two), two);
  assert.equal(shownFolder(null, new Set([one, two]), null), one);
  assert.equal(shownFolder(null, new Set([one]), two), one);
});

test("without any status there is none to show", () => {
  assert.equal(shownFolder(one, new Set(), one), null);
});
