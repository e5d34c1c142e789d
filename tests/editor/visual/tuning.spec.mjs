/** A search for the fastest configuration in a real editor: from the lens to the page, its charts and the tuned file. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

/**
 * The picture of the docs shows a search that wins: with many channels and few pixels, most of a call reorders the
 * weights, which freezing does once. The test's own search is shorter, and its decision may be any.
 */
const isPicture = Boolean(process.env.FUSELIGHT_PICTURES);
const [channels, input] = isPicture ? [512, "1, 512, 7, 7"] : [32, "8, 32, 32, 32"];
const decision = isPicture ? /Tuned:\s[\d.]+×/ : /Tuned:\s(default\sis\sfastest|eager\sis\sfaster|[\d.]+×)/;
const model = `import torch
from torch import nn


# fuselight: Net()(f32[${input}])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(${channels}, ${channels}, 3, padding=1)
        self.norm = nn.BatchNorm2d(${channels})
        self.eval()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))
`;
/** A search compiles with Inductor and calls a C++ compiler, on a machine that may be busy. */
const searched = { timeout: 500_000 };

test.setTimeout(700_000);
test("a search, from the lens to the tuned file", async ({ session }) => {
  const { view, page, folder } = await session({ files: { "model.py": model, "pyproject.toml": "" } });
  const tuning = view.benchmark; // the frame of every page
  const row = (name) => tuning.getByRole("row", { name });

  await page.keyboard.press("Control+b"); // the page is wider without the side bar
  await test.step("one click starts it, and the page shows its progress", async () => {
    await view.pressUntilAsked("Tune", "under torch.compile");
    await view.allow();
    await expect(tuning.getByRole("heading", { name: "Tuning of Net" })).toBeVisible();
    await expect(tuning.getByRole("button", { name: /^Cancel the search/ })).toBeVisible();
    await expect(tuning.getByRole("status").first()).toContainText("Net");
    await view.screenshot("tuning-begun");
  });

  await test.step("it ends with a decision, and says what each knob could gain", async () => {
    await expect(tuning.getByRole("button", { name: /^Search the fastest/ })).toBeVisible(searched);
    await expect(row(/^eager .*[\d.]+ [µm]s/).first()).toBeVisible();
    await expect(row(/^default .*[\d.]+ [µm]s/).first()).toBeVisible();
    await expect
      .poll(() => colors(tuning.getByRole("application", { name: /^Chart: Speed-up/ }).locator("canvas")))
      .toBeGreaterThan(3);
    await expect(view.lens("Cancel Tuning")).toHaveCount(0);
    await expect(view.lens(decision)).toBeVisible();
    await view.screenshot("tuning");
    await tuning.getByText(/^As a table, with the reasons/).click();
    await expect(row(/^CUDA graphs .* no /).first()).toBeVisible();
  });

  await test.step("the decision is in the file that a program replays", async () => {
    const { results } = JSON.parse(fs.readFileSync(path.join(folder, "fuselight-tuned.json"), "utf8"));
    expect(results.map(({ file, target }) => [file, target])).toEqual([["model.py", "Net"]]);
    await tuning.getByRole("button", { name: /^Copy the decision/ }).click();
    await tuning.getByRole("button", { name: /^Open the file/ }).click();
    await expect(view.tab("fuselight-tuned.json")).toHaveCount(1);
  });
});

/** How many colors are on a canvas: an empty one has one. */
function colors(canvas) {
  return canvas.first().evaluate((made) => {
    const { data } = made.getContext("2d").getImageData(0, 0, made.width, made.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
}
