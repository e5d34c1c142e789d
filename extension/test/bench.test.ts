/** A benchmark's page without a DOM: rows of the flame chart, segments, limits, its policy, its target. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  benchShownIn,
  benchTargetIn,
  benchTitleOf,
  measuredAt,
  pageMessageIn,
  pictureIn,
  renamedUri,
  startedIn,
} from "../src/bench/target.ts";
import type { ProfileDetails, Roofline, StepRow, WallPart } from "../src/messages/page_types.ts";
import { coalesce } from "../src/webviews/coalesce.ts";
import { pageHtml, pagePolicy } from "../src/webviews/page.ts";
import { profileOf } from "../webview/bench/profiles.ts";
import { ceilings, intensities, memoryLimit, rates, ridge, shownPoints } from "../webview/bench/roofline.ts";
import { colorIndex, kindsOf, segmentsOf } from "../webview/bench/where.ts";
import { flameRows, stageOf, stageTimes } from "../webview/measured/flame.ts";

const uri = "file:///w/model.py";
const place = { uri, path: "model.py", line: 11, text: "x = self.up(x)" };

function step(name: string, start_us: number, us: number, depth: number): StepRow {
  return { name, start_us, us, depth, place: null, compile_id: null, sampled: false };
}

describe("A renamed file", () => {
  it("is found under its new name, also after a rename of its folder", () => {
    assert.equal(renamedUri(uri, uri, "file:///w/net.py"), "file:///w/net.py");
    assert.equal(renamedUri(uri, "file:///w", "file:///v"), "file:///v/model.py");
    for (const other of ["file:///w/model", "file:///w/model.p", "file:///w/model.py/x", "file:///"]) {
      assert.equal(renamedUri(uri, other, "file:///v"), null);
    }
  });
});

describe("The flame chart", () => {
  const steps = [
    step("inductor_compile", 30, 60, 2),
    step("entire_frame_compile", 0, 100, 0),
    step("backend_compile", 20, 75, 1),
    step("bytecode_tracing", 5, 15, 1),
    step("sampled meanwhile", 40, 30, 1),
    step("entire_frame_compile", 100, 20, 0),
    step("left alone", 105, 5, 3),
  ];
  const boxes = flameRows(steps);
  const rowOf = (name: string) => boxes.find((box) => box.step.name === name)?.row;

  it("has a box for each step", () => {
    assert.deepEqual(new Set(boxes.map((box) => box.step)), new Set(steps));
  });

  it("draws steps without overlap, each below its outer step", () => {
    for (const [index, one] of boxes.entries()) {
      for (const other of boxes.slice(index + 1)) {
        const start = Math.max(one.step.start_us, other.step.start_us);
        const end = Math.min(one.step.start_us + one.step.us, other.step.start_us + other.step.us);
        const apart = end - start <= 0.5;
        assert.ok(apart || one.row !== other.row, `${one.step.name} and ${other.step.name}`);
        assert.ok(apart || one.step.depth >= other.step.depth || one.row < other.row);
      }
    }
  });

  it("has no empty rows", () => {
    assert.equal(rowOf("entire_frame_compile"), 0);
    assert.deepEqual([rowOf("bytecode_tracing"), rowOf("backend_compile")], [1, 1]);
    assert.equal(rowOf("left alone"), 1);
    assert.deepEqual(flameRows([]), []);
  });

  it("counts only the innermost steps", () => {
    const times = stageTimes(
      flameRows([
        step("dynamo", 0, 100, 0),
        step("inductor_compile", 20, 60, 1),
        step("async_compile.wait", 30, 10, 2),
        step("import numpy", 150, 5, 0),
      ]),
    );
    assert.deepEqual(
      new Set(times),
      new Set([
        ["Dynamo", 40],
        ["Inductor", 50],
        ["Compilers and caches", 10],
        ["Other", 5],
      ]),
    );
    assert.equal(stageTimes([]).size, 0);
  });

  it("knows torch's names", () => {
    const stage = (name: string) => stageOf(step(name, 0, 1, 0));
    for (const name of ["dynamo", "entire_frame_compile", "compile_attempt_0", "build_guards"]) {
      assert.equal(stage(name), "Dynamo");
    }
    assert.equal(stage("aot_collect_metadata"), "AOTAutograd");
    assert.equal(stage("Scheduler.fused_nodes"), "Inductor");
    assert.equal(stage("async_compile.wait"), "Compilers and caches");
    assert.equal(stage("import numpy"), "Other");
  });
});

describe("Where the wall time goes", () => {
  const part = (kind: string, us: number): WallPart => {
    return { kind, label: kind, us, share: us / 1000, place: null, what: "" };
  };
  const parts = [part("kernel", 700), part("sync", 290), part("host", 2), part("host", 3), part("host", 5)];
  const segments = segmentsOf(parts);

  it("lays parts end to end, and combines small parts of a kind", () => {
    assert.deepEqual(
      segments.map(({ kind, start, end, parts: of }) => [kind, start, end, of.length]),
      [
        ["kernel", 0, 700, 1],
        ["sync", 700, 990, 1],
        ["host", 990, 995, 1],
        ["host", 995, 1000, 2],
      ],
    );
    assert.deepEqual(kindsOf(parts), ["kernel", "sync", "host"]);
    assert.deepEqual(segmentsOf([]), []);
  });

  it("has a color for each of the server's kinds", () => {
    const where = readFileSync(
      new URL("../../compiler/fuselight/shared/report/measured.py", import.meta.url),
      "utf8",
    );
    const gaps = /class GapKind[\s\S]*?\n\n\n/.exec(where)?.[0] ?? "";
    const kinds = [...gaps.matchAll(/^ {4}[A-Z]+ = "(\w+)"/gm)].map((match) => match[1] ?? "");
    assert.ok(kinds.length >= 7);
    const colors = [...kinds, "kernel", "kernel_eager", "kernel_copy"].map(colorIndex);
    assert.equal(new Set(colors).size, colors.length);
    assert.ok(!colors.includes(colorIndex("unknown")));
    for (const kind of ["kernel_backend", "backend"]) {
      assert.ok(colors.includes(colorIndex(kind)), "of a backend that is not Inductor");
    }
  });
});

describe("The roofline", () => {
  const point = { name: "k", us: 1, place: null };
  const roofline: Roofline = {
    points: [
      { ...point, intensity: 0.5, tflops: 1.2 },
      { ...point, intensity: 0, tflops: 0 },
    ],
    bandwidth_gbs: 4000,
    peaks: [
      { dtype: "f32", tflops: 60 },
      { dtype: "f16", tflops: 900 },
      { dtype: "bf16", tflops: 900 },
    ],
  };

  it("has no points without operations", () => {
    assert.deepEqual(shownPoints(roofline), [roofline.points[0]]);
  });

  it("has ridges where memory bandwidth reaches each rate", () => {
    assert.equal(ridge(roofline, 60), 15);
    assert.equal(memoryLimit(roofline, 15), 60);
    assert.deepEqual(ceilings(roofline), [
      { dtypes: ["f16", "bf16"], tflops: 900 },
      { dtypes: ["f32"], tflops: 60 },
    ]);
  });

  it("spans full decades", () => {
    const [across, up] = [intensities(roofline), rates(roofline)];
    assert.ok(across.start <= 0.5 && across.end >= 225 && up.start <= 1.2 && up.end >= 900);
    for (const value of [across.start, across.end, up.start, up.end]) {
      assert.equal(Math.log10(value), Math.round(Math.log10(value)));
    }
  });
});

describe("The HTML of the page", () => {
  const source = "https://x.vscode-cdn.net";

  it("allows only its own script and style sheet", () => {
    const policy = pagePolicy({ source, nonce: "abc" });
    assert.equal(policy, `default-src 'none'; style-src ${source}; script-src 'nonce-abc'; img-src data:`);
    const html = pageHtml({
      source,
      nonce: "abc",
      script: `${source}/bench.js`,
      style: `${source}/bench.css`,
      title: "Benchmark: a<b & c (model.py)",
    });
    const loading = '<p id="loading" role="status">Loading Benchmark: a&lt;b &amp; c (model.py)\u2026</p>';
    assert.ok(html.includes(loading), html);
    assert.ok(html.indexOf(loading) < html.indexOf("<script"), "it is there before the script is");
    assert.ok(html.includes(`content="${policy}"`));
    assert.deepEqual([...html.matchAll(/<script[^>]*>/g)].map(String), [
      `<script nonce="abc" src="${source}/bench.js">`,
    ]);
    assert.ok(!/ style=|<style|onload=/.test(html));
  });
});

describe("The target of a benchmark", () => {
  it("is a target of a file", () => {
    const of = { uri, target: "Net" };
    assert.deepEqual(benchTargetIn({ ...of, line: 7 }), of);
    assert.deepEqual(benchTargetIn({ uri, target: "" }), { uri, target: "" });
    for (const other of [null, undefined, 7, "x", {}, { uri }, { uri: "", target: "f" }, { target: "f" }]) {
      assert.equal(benchTargetIn(other), null);
    }
    assert.deepEqual(benchShownIn(of), { ...of, run: null, with: null });
    assert.deepEqual(benchShownIn({ ...of, run: "a", with: "b", profile: "x" }), {
      ...of,
      run: "a",
      with: "b",
    });
    assert.equal(benchShownIn({ run: "a" }), null);
  });

  it("has a title", () => {
    assert.equal(benchTitleOf({ uri, target: "Net" }), "Benchmark: Net (model.py)");
    assert.equal(benchTitleOf({ uri: "file:///w/a%20b.py", target: "" }), "Benchmark: __main__ (a b.py)");
    assert.equal(benchTitleOf({ uri, target: "main.<locals>.vq" }), "Benchmark: vq in main (model.py)");
    assert.equal(benchTitleOf({ uri: "file:///w/100%.py", target: "f" }), "Benchmark: f (100%.py)");
  });

  it("is requested with the chosen runs", () => {
    const of = { uri, target: "Net", run: null, with: null };
    assert.deepEqual(measuredAt(of), { uri, target: "Net" });
    assert.deepEqual(measuredAt({ ...of, run: "a", with: "b" }), { uri, target: "Net", run: "a", with: "b" });
  });

  it("has started, or has a reason", () => {
    const no = { started: false, target: null, message: "No target is here." };
    assert.deepEqual(startedIn(no), no);
    assert.deepEqual(startedIn({ started: true, target: "f", message: "" })?.target, "f");
    for (const other of [null, undefined, {}, { started: 1, message: "" }]) {
      assert.equal(startedIn(other), null);
    }
  });

  it("accepts only valid messages of a page", () => {
    const picture = { type: "picture", name: "Net-2026-01-31.png", data: "data:image/png;base64," };
    const asked = [
      { type: "ready" },
      { type: "benchmark" },
      { type: "cancel" },
      { type: "chooseFile" },
      { type: "open", place },
      { type: "open", place: { ...place, uri: "vscode-notebook-cell:/w/n.ipynb#W0" } },
      { type: "choose", run: "a", with: null },
      { type: "forget", run: "a" },
      { type: "export", format: "csv" },
      picture,
    ];
    for (const message of asked) {
      assert.deepEqual(pageMessageIn({ ...message, more: 1 }), message);
    }
    const line = (changes: object) => ({ type: "open", place: { ...place, ...changes } });
    for (const other of [
      null,
      "ready",
      { type: "run" },
      { type: "open" },
      line({ uri: "command:workbench.action.quit" }),
      line({ uri: "https://example.com/a.py" }),
      line({ line: -1 }),
      line({ line: 0.5 }),
      line({ line: "1" }),
      { type: "forget" },
      { type: "forget", run: "" },
      { type: "export", format: "exe" },
      { ...picture, name: "../../a.png" },
      { ...picture, name: "a.exe" },
      { ...picture, data: 7 },
    ]) {
      assert.equal(pageMessageIn(other), null, JSON.stringify(other));
    }
    assert.deepEqual(pageMessageIn({ type: "choose", run: 7, with: "" }), {
      type: "choose",
      run: null,
      with: null,
    });
  });

  it("shows the profile of the editor's lines until another is chosen", () => {
    const of = (names: Record<string, string>) =>
      Object.fromEntries(Object.entries(names).map(([name, source]) => [name, { source } as ProfileDetails]));
    const all = of({ eager: "CUPTI", "max-autotune": "CUPTI", default: "CUPTI", written: "" });
    assert.equal(profileOf(all, null), "default", "written was compiled but not profiled");
    assert.equal(profileOf(all, "eager"), "eager");
    assert.equal(profileOf(all, "gone"), "default");
    assert.equal(profileOf(of({ eager: "CUPTI", written: "CUPTI", default: "CUPTI" }), null), "written");
    assert.equal(profileOf(of({ eager: "CUPTI", "default+dynamic": "" }), null), "default+dynamic");
    assert.equal(profileOf(of({ eager: "CUPTI" }), null), "eager");
    assert.equal(profileOf({}, null), null);
  });

  it("has a picture only if one was drawn", () => {
    const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a]);
    const url = (bytes: Buffer) => `data:image/png;base64,${bytes.toString("base64")}`;
    assert.deepEqual(pictureIn(url(png)), png);
    for (const other of ["", "data:text/html,x", url(Buffer.from("<html>")), 7, null]) {
      assert.equal(pictureIn(other), null);
    }
  });
});

describe("Requests of a page", () => {
  it("are sent one at a time, and later ones are combined", async () => {
    const open: (() => void)[] = [];
    let asked = 0;
    const draw = coalesce(() => {
      asked += 1;
      return new Promise((done) => {
        open.push(done);
      });
    });
    const all = draw();
    await Promise.all([draw(), draw(), draw()]);
    assert.equal(asked, 1);
    open.shift()?.();
    await new Promise(setImmediate);
    assert.equal(asked, 2);
    open.shift()?.();
    await all;
    assert.equal(asked, 2);
  });

  it("continue after a failure", async () => {
    let asked = 0;
    const draw = coalesce(() => {
      asked += 1;
      return asked === 1 ? Promise.reject(new Error("gone")) : Promise.resolve();
    });
    await assert.rejects(draw());
    await draw();
    assert.equal(asked, 2);
  });
});
