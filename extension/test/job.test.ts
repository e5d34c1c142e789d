/** A job's page without a DOM: its rows, its timeline, its messages, its target. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { emptyPage, jobMessageIn, jobShownIn, jobTitleOf } from "../src/jobs/target.ts";
import type { JobPage, JobStartLine, JobTimeline } from "../src/messages/page_types.ts";
import { urisIn } from "../src/messages/uri_list.ts";
import {
  estimate,
  leftOut,
  lineName,
  lookups,
  savedAgain,
  seconds,
  secondsOf,
  shortPlace,
  stagesOf,
  summary,
  timelineBoxes,
  timelineNames,
} from "../webview/job/shown.ts";

const uri = "file:///runs/monday";
const place = { uri: "file:///w/train.py", path: "train.py", line: 11, text: "x = self.up(x)" };

describe("The data of a job's page", () => {
  it("is a message with all of its parts, or none", () => {
    assert.deepEqual(jobMessageIn({ type: "open", place }), { type: "open", place });
    assert.deepEqual(jobMessageIn({ type: "compare", against: "b" }), { type: "compare", against: "b" });
    assert.deepEqual(jobMessageIn({ type: "compare", against: "" }), { type: "compare", against: null });
    for (const type of ["ready", "compareOther", "close", "reopen"] as const) {
      assert.deepEqual(jobMessageIn({ type, more: 1 }), { type });
    }
    for (const value of [null, 3, {}, { type: "open" }, { type: "open", place: { uri: 3 } }, { type: "x" }]) {
      assert.equal(jobMessageIn(value), null);
    }
  });

  it("is a job that a reload restores", () => {
    const shown = { uri, target: `${uri}#0`, against: null };
    assert.deepEqual(jobShownIn({ ...shown, more: 1 }), shown);
    assert.deepEqual(jobShownIn({ ...shown, against: "b" }), { ...shown, against: "b" });
    assert.deepEqual(jobShownIn({ ...shown, against: "" }), shown);
    for (const value of [null, {}, { uri }, { uri: "", target: "a" }, { uri, target: "" }]) {
      assert.equal(jobShownIn(value), null);
    }
    assert.equal(jobTitleOf({ uri: "file:///runs/two%20days/" }), "Job: two days");
    assert.equal(emptyPage(shown, "gone").message, "gone");
  });

  it("may be dropped as a list of URIs with comments", () => {
    assert.deepEqual(urisIn(`# two\r\n${uri}\r\nfile:///runs/b\n`), [uri, "file:///runs/b"]);
    assert.deepEqual(urisIn(""), []);
  });
});

describe("The texts of a job's page", () => {
  it("have units, and mark estimates", () => {
    assert.equal(seconds(4.1), "4.1 s");
    assert.equal(seconds(0.038), "38 ms");
    assert.equal(estimate(4.1), "~4.1 s");
    assert.equal(estimate(null), seconds(null));
    assert.equal(leftOut(0, "rank"), null);
    assert.equal(leftOut(1, "rank"), "1 more rank not shown");
    assert.equal(leftOut(824, "rank"), "824 more ranks not shown");
    assert.equal(lookups({ state: "miss", count: 1 }), "miss");
    assert.equal(lookups({ state: "miss", count: 4 }), "4 misses");
    assert.equal(lookups({ state: "bypass", count: 2 }), "2 bypasses");
  });

  it("summarize the job under its heading, with what it is compared with", () => {
    const page: JobPage = {
      ...emptyPage({ uri, target: "a", against: "b" }, ""),
      found: true,
      statements: ["2 findings in 4 processes"],
      others: [{ id: "b", label: "tuesday" }],
      against: "b",
    };
    assert.equal(summary(page), "2 findings in 4 processes \u00b7 compared with tuesday");
    assert.equal(summary({ ...page, found: false }), "");
  });
});

describe("The start by line", () => {
  const line = (name: string, stages: JobStartLine["stages"]): JobStartLine => ({
    function: name,
    at: { place, shown: "train.py:12" },
    compiles: 1,
    seconds: stages.reduce((sum, stage) => sum + stage.seconds, 0),
    with_nested: null,
    stages,
    saved: null,
  });
  const lines = [
    line("forward", [
      { stage: "tracing", seconds: 1 },
      { stage: "compiling", seconds: 5 },
    ]),
    line("mean", [{ stage: "tracing", seconds: 2 }]),
  ];

  it("has all stages, the longest first, and 0 where a line has none", () => {
    assert.deepEqual(stagesOf(lines), ["compiling", "tracing"]);
    assert.deepEqual(
      lines.map((each) => secondsOf(each, "compiling")),
      [5, 0],
    );
  });

  it("says what a second start saves", () => {
    assert.match(savedAgain(5.1), /would save ~5\.1 s of the compiles, and import everything again\.$/);
    assert.match(savedAgain(0), /would save nothing of the compiles/);
    assert.equal(savedAgain(null), "");
  });

  it("names each line by its place here, else by the end of its path in the job", () => {
    assert.equal(lineName(line("forward", [])), "train.py:12  forward");
    assert.equal(lineName({ ...line("f", []), at: null }), "f");
    assert.equal(shortPlace({ place: null, shown: "/workspace/app/models/net.py:3" }), "models/net.py:3");
  });
});

describe("The timeline of ranks", () => {
  const timeline: JobTimeline = {
    seconds: 10,
    more: 0,
    rows: [
      {
        label: "rank 0",
        is_cut: false,
        spans: [
          { name: "forward", start: 0, seconds: 4, depth: 0, compile_id: "0/0" },
          { name: "mean", start: 5, seconds: 1, depth: 0, compile_id: null },
        ],
      },
      {
        label: "rank 1",
        is_cut: true,
        spans: [{ name: "mean", start: 7, seconds: null, depth: 0, compile_id: "1/0" }],
      },
    ],
  };

  it("has a box for each compile; one that the log does not end lasts to the end of the timeline", () => {
    const boxes = timelineBoxes(timeline);
    assert.deepEqual(
      boxes.map(({ row, name, start, end, isUnfinished }) => [row, name, start, end, isUnfinished]),
      [
        [0, "forward", 0, 4, false],
        [0, "mean", 5, 6, false],
        [1, "mean", 7, 10, true],
      ],
    );
  });

  it("gives colors to the names that take the most time", () => {
    const boxes = timelineBoxes(timeline);
    assert.deepEqual(timelineNames(boxes, 9), ["forward", "mean"]);
    assert.deepEqual(timelineNames(boxes, 1), ["forward"]);
  });
});
