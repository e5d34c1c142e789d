/** The picture of graphs without a DOM: texts, the tree, keys, blocks and their layout. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { amongOffered, targetIn, titleOf, viewMessageIn } from "../src/graphs/target.ts";
import type { GraphArrow, GraphBox, GraphPicture } from "../src/messages/page_types.ts";
import { blocksOf, classOf, labels, layOut, linesOf } from "../webview/graphs/layout.ts";
import { lineOf, pictureLabel, type Row, spokenOf, step, tagOf, treeOf } from "../webview/graphs/words.ts";

const uri = "file:///w/model.py";
const range = { start: { line: 1, character: 4 }, end: { line: 1, character: 9 } };

function box(id: string, changes: Partial<GraphBox> = {}): GraphBox {
  const plain = {
    name: id,
    title: "Net.forward",
    facts: [],
    frame: null,
    again: false,
    count: 1,
    members: [],
  };
  return { id, kind: "graph", ...plain, place: `model.py:${id.length}`, uri, range, ...changes };
}

function pictureOf(boxes: readonly GraphBox[], arrows: readonly GraphArrow[]): GraphPicture {
  const rest = { title: "Net", description: "", message: "", targets: [] };
  return { found: true, boxes, arrows, ...rest };
}

const start = box("t", { kind: "target", name: "", title: "Net", facts: ["Net()(f32[4])"] });
const first = box("0/0", { frame: "a", facts: ["3 operators", "2 guards"] });
const broke = box("b", { kind: "break", name: "GB0059", title: "`print` cannot be traced" });
const second = box("1/0", { frame: "b", uri: null, range: null, place: "" });
const again = box("0/1", { frame: "a", again: true, facts: ["since x was 1, now 2"] });
const picture = pictureOf(
  [start, first, broke, second, again],
  [
    { start: "t", end: "0/0", kind: "calls" },
    { start: "0/0", end: "b", kind: "breaks" },
    { start: "b", end: "1/0", kind: "goes on" },
    { start: "0/0", end: "0/1", kind: "compiled again" },
    { start: "0/1", end: "b", kind: "breaks" },
  ],
);
const texts = (rows: readonly Row[]): readonly string[] =>
  rows.flatMap((row) => [row.text, ...texts(row.children)]);

describe("A message of the page", () => {
  it("is one of its kinds, without anything else that was sent", () => {
    for (const type of ["ready", "run"]) {
      assert.deepEqual(viewMessageIn({ type, command: "x" }), { type });
    }
    assert.deepEqual(viewMessageIn({ type: "choose", target: { uri, target: "Net", label: "Net" } }), {
      type: "choose",
      target: { uri, target: "Net" },
    });
    for (const place of [uri, "vscode-notebook-cell:/w/note.ipynb#W1sZmlsZQ%3D%3D"]) {
      assert.deepEqual(viewMessageIn({ type: "open", uri: place, range, selection: 7 }), {
        type: "open",
        uri: place,
        range,
      });
    }
  });

  it("is refused otherwise", () => {
    const { start } = range;
    const refused = [
      ...[null, undefined, 7, "run", {}, { type: "tune" }, { type: 3 }],
      ...[{ type: "choose" }, { type: "choose", target: { target: "Net" } }],
      ...[{ type: "open" }, { type: "open", uri }, { type: "open", uri, range: { start } }],
      { type: "open", uri: "command:workbench.action.quit", range },
      { type: "open", uri: "https://example.com/model.py", range },
      { type: "open", uri, range: { start: { line: -1, character: 0 }, end: start } },
      { type: "open", uri, range: { start: { line: 1.5, character: 0 }, end: start } },
    ];
    for (const other of refused) {
      assert.equal(viewMessageIn(other), null, JSON.stringify(other));
    }
  });
});

describe("The texts of a box", () => {
  it("name its kind, name, count and location", () => {
    assert.equal(lineOf(first), "Graph 0/0: Net.forward, model.py:3");
    assert.equal(tagOf(again), "Graph 0/1, recompiled");
    assert.equal(tagOf(box("0/0 to 9/0", { count: 10 })), "Graph 0/0 to 9/0 × 10");
    assert.equal(tagOf(box("e", { kind: "eager", name: "" })), "Eager");
    assert.equal(tagOf(box("more", { kind: "more", name: "", count: 90 })), "Not drawn");
    assert.equal(lineOf(second), "Graph 1/0: Net.forward");
  });

  it("contain everything visible", () => {
    assert.equal(
      spokenOf(first, picture),
      "Graph 0/0: Net.forward, model.py:3. 3 operators. 2 guards. leads to 2 boxes",
    );
    assert.equal(spokenOf(second, picture), "Graph 1/0: Net.forward. leads to no box");
  });
});

describe("The tree", () => {
  const rows = treeOf(picture);

  it("has a row for each box in order, with its facts and arrows", () => {
    assert.deepEqual(
      rows.map(({ text }) => text),
      picture.boxes.map(lineOf),
    );
    assert.deepEqual(texts(rows[1]?.children ?? []), [
      "3 operators",
      "2 guards",
      "called from Target: Net, model.py:1",
      "ends at Graph break GB0059: `print` cannot be traced, model.py:1",
      "recompiled as Graph 0/1, recompiled: Net.forward, model.py:3",
    ]);
  });

  it("has every fact, and every arrow in both directions", () => {
    const all = texts(rows);
    for (const { facts } of picture.boxes) {
      assert.ok(facts.every((fact) => all.includes(fact)));
    }
    const ways = rows.flatMap(({ children }) => children.filter(({ leadsTo }) => leadsTo !== null));
    assert.equal(ways.length, 2 * picture.arrows.length);
  });

  it("links to existing lines, and from an arrow to its box", () => {
    assert.deepEqual(
      rows.map(({ place }) => place?.place ?? null),
      ["model.py:1", "model.py:3", "model.py:1", null, "model.py:3"],
    );
    assert.deepEqual(
      rows[3]?.children.map(({ leadsTo }) => leadsTo),
      ["b"],
    );
  });

  it("lists folded boxes, and counts the unlisted ones", () => {
    const members = ["0/0", "1/0"].map((label) => ({ label, place: "model.py:7", uri, range }));
    const [row] = treeOf(pictureOf([box("0/0 to 9/0", { count: 10, members })], []));
    assert.deepEqual(texts(row?.children ?? []), ["0/0, model.py:7", "1/0, model.py:7", "and 8 more"]);
    assert.equal(row?.children[0]?.place?.uri, uri);
  });

  it("has unique row names", () => {
    const names = (all: readonly Row[]): readonly string[] =>
      all.flatMap((row) => [row.id, ...names(row.children)]);
    const found = names(rows);
    assert.equal(new Set(found).size, found.length);
  });
});

describe("Keys", () => {
  it("follow arrows down and up, and visit all boxes", () => {
    assert.equal(step(picture, "0/0", "follow"), "b");
    assert.equal(step(picture, "b", "back"), "0/0");
    assert.equal(step(picture, "1/0", "follow"), "1/0");
    assert.equal(step(picture, "t", "back"), "t");
    assert.equal(step(picture, "1/0", "next"), "0/1");
    assert.equal(step(picture, "0/1", "next"), "0/1");
    assert.equal(step(picture, "t", "previous"), "t");
    assert.equal(step(picture, "b", "last"), "0/1");
    assert.equal(step(picture, "b", "first"), "t");
  });
});

describe("The layout", () => {
  const blocks = blocksOf(picture.boxes);
  const size = { width: 100, height: 40 };

  it("puts the boxes of a frame into one block, and draws an arrow between two blocks once", () => {
    assert.deepEqual(
      blocks.map(({ id, boxes }) => [id, boxes.map((one) => one.id)]),
      [
        ["t", ["t"]],
        ["a", ["0/0", "0/1"]],
        ["b", ["b", "1/0"]],
      ],
    );
    assert.deepEqual(linesOf(picture), [
      { start: "t", end: "a", kind: "calls" },
      { start: "a", end: "b", kind: "breaks" },
    ]);
  });

  it("places successors below, without overlap", () => {
    const apart = pictureOf(
      [..."abcdefgh"].map((id) => box(id)),
      [..."bcdefgh"].map((id, index) => ({ start: "aabbccd"[index] ?? "", end: id, kind: "calls" as const })),
    );
    const made = layOut(
      blocksOf(apart.boxes),
      linesOf(apart),
      () => size,
      () => 30,
    );
    const corners = [...made.blocks.values()];
    for (const [index, one] of corners.entries()) {
      assert.ok(one.x >= 0 && one.y >= 0 && one.x + 100 <= made.width && one.y + 40 <= made.height);
      for (const other of corners.slice(index + 1)) {
        assert.ok(Math.abs(one.x - other.x) >= 100 || Math.abs(one.y - other.y) >= 40);
      }
    }
    for (const { start, end, points } of made.lines) {
      assert.ok((made.blocks.get(start)?.y ?? 0) + 40 <= (made.blocks.get(end)?.y ?? 0));
      assert.ok(points.length >= 2);
    }
  });

  it("accepts a back edge, parallel edges, and an empty picture", () => {
    const lines = [
      { start: "x", end: "y", kind: "calls" as const },
      { start: "x", end: "y", kind: "goes on" as const },
      { start: "y", end: "x", kind: "calls" as const },
    ];
    const made = layOut(
      blocksOf([box("x"), box("y")]),
      lines,
      () => size,
      () => 30,
    );
    assert.equal(made.lines.length, 3);
    assert.deepEqual([...made.blocks.keys()], ["x", "y"]);
    const empty = layOut(
      [],
      [],
      () => size,
      () => 30,
    );
    assert.equal(empty.blocks.size, 0);
  });
});

describe("The target of a picture", () => {
  it("names a file", () => {
    assert.deepEqual(targetIn({ uri, target: "Net", mode: "tree" }), { uri, target: "Net" });
    assert.deepEqual(targetIn({ uri }), { uri, target: null });
    for (const other of [null, undefined, 7, "x", {}, { uri: "" }, { uri: 7 }]) {
      assert.equal(targetIn(other), null);
    }
  });

  it("is the named target, or the only one", () => {
    const [net, main] = [
      { uri, target: "Net", label: "Net" },
      { uri, target: "", label: "__main__" },
    ];
    assert.equal(amongOffered([net, main], "Net"), net);
    assert.equal(amongOffered([net, main], "__main__"), main);
    assert.equal(amongOffered([net, main], "f"), null);
    assert.equal(amongOffered([net], null), net);
    assert.equal(amongOffered([], "Net"), null);
  });

  it("has a title", () => {
    assert.equal(titleOf({ uri, target: "Net" }), "Graphs: Net");
    assert.equal(titleOf({ uri, target: "" }), "Graphs: __main__");
    assert.equal(titleOf({ uri, target: "a.<locals>.b.<locals>.Net" }), "Graphs: Net in b in a");
    assert.equal(titleOf({ uri: "file:///w/a%20b.py", target: null }), "Graphs: a b.py");
  });
});

describe("The style sheet", () => {
  const root = new URL("../../", import.meta.url);
  const sheet = readFileSync(new URL("extension/webview/graphs/page.css", root), "utf8");
  const server = readFileSync(new URL("server/fuselight_server/explain/graphs/picture.py", root), "utf8");
  const kinds = [
    ...(/class ArrowKind[\s\S]*?\n\n\n/.exec(server)?.[0] ?? "").matchAll(/^ {4}[A-Z_]+ = "(.+)"$/gm),
  ];

  it("styles every kind of line that the server sends, and no other", () => {
    const sent = kinds.map((kind) => kind[1] ?? "").sort();
    assert.deepEqual(sent, Object.keys(labels).sort());
    const styled = [...sheet.matchAll(/\.line\.([\w-]+)/g)].map((rule) => rule[1]);
    assert.deepEqual(styled.sort(), (Object.keys(labels) as (keyof typeof labels)[]).map(classOf).sort());
  });

  it("dashes the lines to code that runs in eager mode", () => {
    const rule = new RegExp(`\\.line\\.${classOf("runs in eager")} \\{\\s*stroke-dasharray: \\d`);
    assert.match(sheet, rule);
  });

  it("shows places as links only where a click opens them", () => {
    const links = [...sheet.matchAll(/^([^{}\n]+) \{\n([^}]*)\}/gm)].filter(([, , rule]) =>
      /text-decoration: underline/.test(rule ?? ""),
    );
    const places = links
      .map(([, selector]) => selector ?? "")
      .filter((selector) => selector.includes(".place"));
    assert.deepEqual(places, [".opens .place"]);
    assert.match(pictureLabel("Net", true), /Enter goes to the line\.$/);
    assert.doesNotMatch(pictureLabel("Net", false), /Enter/);
  });
});
