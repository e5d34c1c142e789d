import assert from "node:assert/strict";
import { test } from "node:test";
import { indexOf, positionOf } from "../webview/measured/position.ts";

const items = (...keys: string[]) => keys.map((key) => ({ key }));

test("an item is found after a reorder, and among items with the same key", () => {
  const before = items("a", "b", "a", "c");
  const found = (index: number, after: { key: string }[]) => {
    const position = positionOf(before, index);
    assert.ok(position);
    return indexOf(after, position);
  };
  assert.equal(found(1, items("b", "c", "a", "a")), 0);
  assert.equal(found(2, items("c", "a", "b", "a", "a")), 3, "the second of them");
  assert.equal(found(2, items("c", "a")), 1, "the last one that is left");
  assert.equal(found(3, items("a", "b", "a", "edited")), 3);
  assert.equal(found(3, items("a", "b")), -1);
});

test("each item is found in the same chart, and no item may be selected", () => {
  const all = items("x", "x", "y", "x", "z", "y");
  for (const index of all.keys()) {
    const position = positionOf(all, index);
    assert.ok(position);
    assert.equal(indexOf(all, position), index);
  }
  assert.equal(positionOf(all, -1), null);
  assert.equal(positionOf([], 0), null);
});
