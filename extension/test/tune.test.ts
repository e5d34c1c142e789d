/** A search's page without a DOM: its messages, its title, the ceilings and rounds that its charts show. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { KnobRow, RaceSeries } from "../src/messages/page_types.ts";
import { tuneMessageIn, tuningTitleOf } from "../src/tune/target.ts";
import { namesOf, roundsOf, seconds, shownKnobs } from "../webview/tune/shown.ts";

function knob(name: string, ceiling: number | null): KnobRow {
  return {
    name,
    label: name,
    meaning: "",
    bound: "",
    bound_us: null,
    ceiling,
    applies: name !== "other",
    tried: true,
    why: "",
  };
}

function series(name: string, label: string, points: RaceSeries["points"] = []): RaceSeries {
  return { name, label, points };
}

describe("A message of the page", () => {
  it("is one of its kinds, without anything else that was sent", () => {
    assert.deepEqual(tuneMessageIn({ type: "openFile", file: "file:///etc/passwd" }), { type: "openFile" });
    for (const type of ["ready", "tune", "cancel", "copy", "applyFixes"]) {
      assert.deepEqual(tuneMessageIn({ type }), { type });
    }
  });

  it("is refused otherwise", () => {
    for (const other of [null, undefined, 7, "tune", {}, { type: "run" }, { type: 3 }]) {
      assert.equal(tuneMessageIn(other), null);
    }
  });
});

describe("The title", () => {
  it("names the target and its file", () => {
    assert.equal(tuningTitleOf({ uri: "file:///w/my%20net.py", target: "Net" }), "Tuning: Net (my net.py)");
    assert.equal(
      tuningTitleOf({ uri: "file:///w/m.py", target: "main.<locals>.f" }),
      "Tuning: f in main (m.py)",
    );
    assert.equal(tuningTitleOf({ uri: "file:///w/m.py", target: "" }), "Tuning: __main__ (m.py)");
  });
});

describe("The charts", () => {
  it("show knobs with a known ceiling only", () => {
    const shown = shownKnobs([knob("a", 2), knob("b", null), knob("c", 1.1), knob("other", 3)]);
    assert.deepEqual(
      shown.map(({ name }) => name),
      ["a", "c"],
    );
  });

  it("show rounds whose time is known", () => {
    const rounds = roundsOf(
      series("default", "default", [
        [1, 400, 1],
        [null, 1, 1],
        [2, null, 2],
      ]),
    );
    assert.deepEqual(rounds, [{ at: 1, us: 400, stage: 1 }]);
  });

  it("tell candidates of the same label apart", () => {
    assert.deepEqual(namesOf([series("a=1", "fusion"), series("a=2", "fusion"), series("b", "graphs")]), [
      "a=1",
      "a=2",
      "graphs",
    ]);
  });

  it("show moments in seconds", () => {
    assert.equal(seconds(1.234), "1.2 s");
    assert.equal(seconds(61.7), "62 s");
  });
});
