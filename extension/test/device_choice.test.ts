/** The settings that a choice of device writes, and the picker. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { changeFor, entriesOf } from "../src/status/device_choice.ts";

const cases: readonly [string, Parameters<typeof changeFor>, ReturnType<typeof changeFor>][] = [
  ["a first choice goes to the folder", ["h200", {}, true], { scope: "workspaceFolder", value: "h200" }],
  [
    "outside any folder it goes to the user's settings",
    ["h200", {}, false],
    { scope: "global", value: "h200" },
  ],
  [
    "it goes where one stands already",
    ["h200", { globalValue: "t4" }, true],
    { scope: "global", value: "h200" },
  ],
  [
    "the innermost of several",
    ["h200", { globalValue: "t4", workspaceFolderValue: "l4" }, true],
    { scope: "workspaceFolder", value: "h200" },
  ],
  [
    "a workspace of several folders",
    ["h200", { workspaceValue: "t4" }, true],
    { scope: "workspace", value: "h200" },
  ],
  [
    "auto takes the value out",
    ["auto", { workspaceFolderValue: "t4", workspaceValue: "t4" }, true],
    { scope: "workspaceFolder", value: undefined },
  ],
  [
    "auto in the user's settings likewise",
    ["auto", { globalValue: "t4" }, true],
    { scope: "global", value: undefined },
  ],
  [
    "auto is written where a setting farther out says otherwise",
    ["auto", { globalValue: "t4", workspaceFolderValue: "l4" }, true],
    { scope: "workspaceFolder", value: "auto" },
  ],
  [
    "so it is for a folder in a workspace that has one",
    ["auto", { workspaceValue: "t4", workspaceFolderValue: "l4" }, true],
    { scope: "workspaceFolder", value: "auto" },
  ],
];

for (const [name, given, expected] of cases) {
  test(name, () => assert.deepEqual(changeFor(...given), expected));
}

test("the current device and user devices are marked, also in text", () => {
  const common = { detail: "9.0, 132 SMs", own: false, current: false };
  const [auto, lab, h200] = entriesOf([
    { ...common, key: "auto", name: "the GPU that is there", current: true },
    { ...common, key: "lab", name: "", own: true },
    { ...common, key: "h200", name: "NVIDIA H200" },
  ]);
  assert.deepEqual(auto, {
    label: "$(check) auto",
    description: "the GPU that is there - current",
    detail: "9.0, 132 SMs",
    key: "auto",
  });
  assert.deepEqual([lab?.label, lab?.description], ["$(blank) lab", "yours"]);
  assert.deepEqual([h200?.label, h200?.description], ["$(blank) h200", "NVIDIA H200"]);
});
