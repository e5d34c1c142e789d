import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { idOf, partsOf } from "../src/cursor/kernel_uri.ts";
import { generatedLines, sourceLines } from "../src/kernels/lines.ts";
import type { KernelLink } from "../src/messages/server_types.ts";

describe("The URI of a kernel", () => {
  const id = {
    uri: "file:///w/a%20b/model.py",
    target: "Net",
    kernel: "0/0:forward:3:triton_poi_fused_gelu_1",
    form: "source",
  };

  it("contains everything that identifies the text", () => {
    assert.deepEqual(idOf(partsOf(id, "triton.py").query), id);
  });

  it("distinguishes the __main__ block from a target", () => {
    const main = { ...id, target: "" };
    assert.equal(partsOf(main, "k.py").path, "/__main__/k.py");
    assert.deepEqual(idOf(partsOf(main, "k.py").query), main);
  });

  it("has a path of two parts for any names", () => {
    const local = { ...id, target: "main.<locals>.vq" };
    assert.equal(partsOf(local, "k.py").path, "/vq in main/k.py");
    assert.deepEqual(idOf(partsOf(local, "k.py").query), local);
    assert.equal(partsOf({ ...id, target: "a/b" }, "x/y.py").path, "/a_b/x_y.py");
  });

  it("is invalid without one of its parts", () => {
    assert.equal(idOf("uri=file:///m.py&target=f"), null);
    assert.equal(idOf(""), null);
  });
});

describe("Linked lines", () => {
  const [model, other] = ["file:///model.py", "file:///other.py"];
  const links: readonly KernelLink[] = [
    { uri: model, lines: [8, 9, 12], first: 0, last: 40 },
    { uri: other, lines: [3], first: 0, last: 40 },
    { uri: model, lines: [20], first: 50, last: 50 },
    { uri: model, lines: [9], first: 51, last: 51 },
  ];

  it("finds the source of a generated line, with neighbors combined", () => {
    assert.deepEqual(sourceLines(links, 7, model), [
      { first: 8, last: 9 },
      { first: 12, last: 12 },
    ]);
    assert.deepEqual(sourceLines(links, 7, other), [{ first: 3, last: 3 }]);
    assert.deepEqual(sourceLines(links, 45, model), []);
  });

  it("finds all generated lines of a line", () => {
    assert.deepEqual(generatedLines(links, { first: 9, last: 9 }, model), [
      { first: 0, last: 40 },
      { first: 51, last: 51 },
    ]);
    assert.deepEqual(generatedLines(links, { first: 20, last: 25 }, model), [{ first: 50, last: 50 }]);
    assert.deepEqual(generatedLines(links, { first: 10, last: 11 }, model), []);
    assert.deepEqual(generatedLines(links, { first: 0, last: 99 }, "file:///none.py"), []);
  });
});
