/** Texts of a benchmark's page: numbers, sentences, and explanations of its terms. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { ConfigurationRow, MeasuredPage } from "../src/messages/page_types.ts";
import { configurationWords, kernelKind, kernelName, kindWords } from "../webview/bench/explained.ts";
import * as words from "../webview/measured/words.ts";

const uri = "file:///w/model.py";
const place = { uri, path: "model.py", line: 11, text: "x = self.up(x)" };

describe("Texts", () => {
  it("format times and sizes with three digits and a unit, and unknown values as a dash", () => {
    assert.deepEqual(
      [0, 0.0384, 38.44, 999.4, 999.6, 12_345, 1_234_000, 600e6].map((us) => words.time(us)),
      ["0 µs", "0.0384 µs", "38.4 µs", "999 µs", "1 ms", "12.3 ms", "1.23 s", "600 s"],
    );
    assert.deepEqual([512, 3.21e9].map(words.bytes), ["512 B", "3.21 GB"]);
    assert.equal(words.number(4812), "4,810");
    for (const said of [words.time, words.bytes, words.number, words.percent, words.change, words.speedup]) {
      assert.equal(said(null), words.unknown);
    }
  });

  it("format speed-ups with at least two digits", () => {
    assert.deepEqual([1, 12.345, 0.5, 0.00472].map(words.speedup), ["1.00×", "12.35×", "0.50×", "0.0047×"]);
  });

  it("never show 0% for a positive share", () => {
    assert.deepEqual([0, 0.0004, 0.012, 0.174].map(words.percent), ["0.0%", "<0.1%", "1.2%", "17%"]);
  });

  it("format changes with their sign, and none within the spread", () => {
    assert.deepEqual([0.124, -0.031, 0].map(words.change), ["+12%", "\u22123.1%", "+0.0%"]);
    assert.equal(words.changeOf({ before_us: 5, after_us: 5.1, change: null }), "within the spread");
    assert.equal(words.changeOf({ before_us: null, after_us: 5, change: null }), words.unknown);
  });

  it("describe a configuration", () => {
    assert.equal(words.withSpread({ us: 12_300, spread: 0.012 }), "12.3 ms ± 1.2%");
    assert.equal(words.withSpread({ us: null, spread: null }), words.unknown);
    const cell = (passed: boolean | null, text: string) =>
      words.accuracy({ accuracy: { passed, text, tensors: [], place: null } } as unknown as ConfigurationRow);
    assert.equal(words.withSpread({ us: 446, spread: 51.53 }), "446 µs ± >100%");
    assert.deepEqual(cell(true, ""), ["passed", ""]);
    assert.deepEqual(cell(false, "cosine 0.5"), ["FAILED", "cosine 0.5"]);
    assert.deepEqual(cell(null, "not compared: no reference"), ["not compared", "no reference"]);
  });

  it("summarize what was measured, and when", () => {
    const page = {
      path: "a/model.py",
      work: "inference",
      inputs: ["Net()(f32[4])"],
      when: "2026-01-31T12:00:00",
      machine: [{ name: "device", value: "NVIDIA H200" }],
      configurations: [{ name: "eager", us: 12 }],
    };
    const said = words.summary(page as unknown as MeasuredPage);
    assert.equal(
      said,
      "a/model.py \u00b7 inference of Net()(f32[4]) \u00b7 measured on NVIDIA H200, 2026-01-31 12:00",
    );
    const failed = { ...page, configurations: [{ name: "eager", us: null }] };
    assert.match(words.summary(failed as unknown as MeasuredPage), /\u00b7 attempted, 2026-01-31 12:00$/);
    assert.equal(words.placeOf(place), "model.py:12");
    assert.equal(
      words.pictureName({ ...page, title: "a.b<c>" } as unknown as MeasuredPage),
      "a.b_c_-2026-01-31.png",
    );
  });

  it("capitalize statements except names", () => {
    const names = ["eager", "max-autotune", "max-autotune-no-cudagraphs"];
    assert.equal(words.sentence("its compile takes 5 s ± 1%", names), "Its compile takes 5 s ± 1%");
    assert.equal(words.sentence("eager takes 5 s", names), "eager takes 5 s");
    assert.deepEqual(["written", "default"].map(words.configurationName), ["as in source", "default"]);
  });

  it("show a failure once", () => {
    const page = {
      notes: ["no inputs are known. write a directive.", "the load average was 7.0"],
      configurations: [{ failure: "no inputs are known. write a directive" }, { failure: null }],
    };
    assert.deepEqual(words.notesOf(page as unknown as MeasuredPage), ["the load average was 7.0"]);
  });
});

describe("Explanations", () => {
  it("exist for each named configuration", () => {
    const named = readFileSync(
      new URL("../../compiler/fuselight/shared/configurations.py", import.meta.url),
      "utf8",
    );
    const modes = [...(/^MODES = \((.*)\)$/m.exec(named)?.[1]?.matchAll(/"([\w-]+)"/g) ?? [])];
    assert.ok(modes.length >= 4);
    for (const name of ["eager", "written", "dynamic", ...modes.map((match) => match[1] ?? "")]) {
      assert.notEqual(configurationWords(name), "", name);
    }
    assert.equal(
      configurationWords("backend:aot_eager+fullgraph+a=1"),
      "torch.compile with the backend aot_eager, graph breaks are errors, a=1",
    );
  });

  it("exist for each kind of time", () => {
    const report = readFileSync(
      new URL("../../compiler/fuselight/shared/report/measured.py", import.meta.url),
      "utf8",
    );
    const gaps = /class GapKind[\s\S]*?\n\n\n/.exec(report)?.[0] ?? "";
    const kinds = [...gaps.matchAll(/^ {4}[A-Z]+ = "(\w+)"/gm)].map((match) => match[1] ?? "");
    assert.ok(kinds.length >= 7);
    for (const kind of [...kinds, "kernel", "kernel_eager", "kernel_copy", "unknown"]) {
      assert.notEqual(kindWords(kind), "", kind);
    }
  });

  it("exist for each kind of kernel", () => {
    const read = (name: string) =>
      readFileSync(new URL(`../../compiler/fuselight/shared/report/${name}.py`, import.meta.url), "utf8");
    const members = (text: string, name: string) =>
      [
        ...(new RegExp(`class ${name}[\\s\\S]*?\\n\\n\\n`).exec(text)?.[0] ?? "").matchAll(
          /^ {4}[A-Z_]+ = "(\w+)"/gm,
        ),
      ].map((match) => match[1] ?? "");
    const kinds = [...members(read("kernels"), "KernelKind"), ...members(read("measured"), "LaunchKind")];
    assert.ok(kinds.length >= 10);
    for (const kind of kinds) {
      assert.notEqual(kernelKind(kind), kind);
    }
    assert.equal(kernelKind("of_tomorrow"), "of tomorrow");
  });

  it("shorten the names of kernels", () => {
    const encoded = "_ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionEEE";
    assert.equal(kernelName(encoded), "cutlass__5x_cudnn::Kernel<\u2026>");
    assert.equal(
      kernelName("void at::native::reduce_kernel<512, 1>(int)"),
      "at::native::reduce_kernel<512, 1>(int)",
    );
    assert.equal(kernelName("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
    assert.equal(kernelName("_ZN99short"), "short");
  });
});
