/** A benchmark in a real editor: from the lens to the page, its charts and tables, its files, and a canceled benchmark. */

import fs from "node:fs";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const model = `import torch
from torch import nn


# fuselight: Net()(f32[16384, 64])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        x = self.up(x)
        x = x * torch.sigmoid(1.702 * x) + 0.1 * torch.tanh(x)
        return self.norm(x)
`;
const lineOf = (text) => model.split("\n").findIndex((line) => line.includes(text)) + 1;
/** A benchmark compiles with Inductor and calls a C++ compiler, on a machine that may be busy. */
const measured = { timeout: 300_000 };

test.setTimeout(700_000);
test("a benchmark, from the lens to its files", async ({ session }) => {
  const { view, page, configure } = await session({ files: { "model.py": model } });
  const { benchmark } = view;
  const heading = benchmark.getByRole("heading", { name: "Benchmark of Net" });
  const row = (name) => benchmark.getByRole("row", { name });
  const chart = (name) => benchmark.getByRole("application", { name });

  await page.keyboard.press("Control+b"); // the page is wider without the side bar
  await test.step("one click starts it, and the page shows its progress", async () => {
    await view.pressUntilAsked("Benchmark", "under torch.compile");
    await view.allow();
    await expect(heading).toBeVisible();
    await expect(benchmark.getByRole("button", { name: "Cancel the benchmark" })).toBeVisible();
    await expect(benchmark.getByRole("status").first()).toContainText("Net");
    await expect(row(/^eager .*still measuring .*second [\d.]+ [um]s/)).toBeVisible(measured);
    await view.screenshot("benchmark-begun");
  });

  await test.step("the table compares eager with compiled", async () => {
    await expect(row(/^default .*[\d.]+ [µm]s ±.*[\d.]+× passed/)).toBeVisible(measured);
    await expect(row(/^eager without compilation [\d.]+ [µm]s ±.* 1\.00×/)).toBeVisible();
    await expect(benchmark.getByRole("button", { name: "Benchmark this target again" })).toBeVisible(
      measured,
    );
    await expect(view.lens(/eager [\d.–]+ [µm]s.*, default [\d.–]+ [µm]s/)).toBeVisible();
  });

  await test.step("charts are drawn, and text and tables have the same data", async () => {
    for (const name of [
      /^Chart: Where the wall time/,
      /^Chart: Time by line/,
      /^Chart: Phases of the cold compile/,
    ]) {
      await expect.poll(() => colors(chart(name).locator("canvas"))).toBeGreaterThan(3);
    }
    await expect(view.lensAction(/^Benchmark$/).first()).toBeVisible(); // the lens can follow the page late
    await view.screenshot("benchmark");
    await chart(/^Chart: Where/).focus();
    await page.keyboard.press("ArrowRight");
    await expect(benchmark.getByText(/% of the wall time/)).toBeVisible();
    await benchmark.getByText("As a table").nth(1).click();
    const lines = benchmark.getByRole("region", { name: "Time by line" });
    await expect(lines.getByRole("row", { name: /model\.py:1[345]/ }).first()).toBeVisible();
    await view.screenshot("benchmark-lines");
  });

  await test.step("the page runs and loads only its own files", async () => {
    const refused = await benchmark.locator("body").evaluate(async (body) => {
      const tried = (name, fields) =>
        new Promise((done) => {
          const made = Object.assign(document.createElement(name), fields);
          const report = (event) => {
            made.remove();
            done(event.effectiveDirective);
          };
          document.addEventListener("securitypolicyviolation", report, { once: true });
          body.append(made);
        });
      return [
        await tried("script", { textContent: "window.ran = true" }),
        await tried("style", { textContent: "body { color: red }" }),
        await tried("img", { src: "https://example.com/a.png" }),
      ];
    });
    expect(refused).toEqual(["script-src-elem", "style-src-elem", "img-src"]);
  });

  await test.step("a table's button and a chart's Enter go to lines", async () => {
    const line = lineOf("self.up(x)");
    await benchmark
      .getByRole("button", { name: `Go to model.py:${line}` })
      .first()
      .click();
    await expect(view.cursorAt(line)).toBeVisible();
    await view.goToLine(1); // the chart may go to the same line: the cursor is to show that it has
    await chart(/^Chart: Time by line/).focus();
    await page.keyboard.press("End");
    await expect(benchmark.getByText(/^model\.py:\d+\. .*of the kernels' time/)).toBeVisible();
    const text = await benchmark.getByText(/^model\.py:\d+\. .*of the kernels' time/).textContent();
    await page.keyboard.press("Enter");
    await expect(view.cursorAt(/^model\.py:(\d+)/.exec(text)[1])).toBeVisible();
  });

  await test.step("its lines move with edits, and the editor keeps the focus", async () => {
    const button = (line) => benchmark.getByRole("button", { name: `Go to model.py:${line}` }).first();
    const line = lineOf("self.up(x)");
    await view.goToLine(1);
    await page.keyboard.press("Home");
    await page.keyboard.press("Enter");
    await expect(button(line + 1)).toBeVisible();
    await page.keyboard.type("typed");
    await expect(view.editor).toContainText("typedimport");
    const isUndone = async () =>
      (await button(line).isVisible()) && !(await view.editor.innerText()).includes("typed");
    while (!(await isUndone())) {
      await page.keyboard.press("Control+z");
    }
  });

  await test.step("it is exported as JSON, CSV, PNG and a standalone page", async () => {
    const files = {};
    for (const [button, ending] of [
      ["Export as JSON", "json"],
      ["Export as CSV", "csv"],
      ["Export as HTML", "html"],
      ["Export the charts as PNG", "png"],
    ]) {
      await benchmark.getByRole("button", { name: button }).click();
      files[ending] = await view.saveAsOffered(ending);
    }
    const { page: exported } = JSON.parse(fs.readFileSync(files.json, "utf8"));
    expect(exported.configurations.map(({ name }) => name)).toEqual(["eager", "default"]);
    expect(fs.readFileSync(files.csv, "utf8")).toMatch(/^target,table,.*\r?\nNet,configuration,eager,/);
    expect([...fs.readFileSync(files.png).subarray(0, 4)]).toEqual([0x89, 0x50, 0x4e, 0x47]);
    const alone = await page.context().newPage();
    const errors = [];
    alone.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    await alone.goto(`file://${files.html}`);
    await expect(alone.getByRole("heading", { name: "Benchmark of Net" })).toBeVisible();
    await expect(alone.getByRole("row", { name: /^default .*[\d.]+ [um]s/ })).toBeVisible();
    await expect
      .poll(() => colors(alone.getByRole("application", { name: /^Chart: Time by line/ }).locator("canvas")))
      .toBeGreaterThan(3);
    expect(errors).toEqual([]);
    await alone.close();
  });

  await test.step("a cancel keeps the previous measurements", async () => {
    await view.editor.click();
    await view.goToLine(lineOf("self.up(x)"));
    await view.commandThatAsks("Fuselight: Benchmark"); // the target is the one around the cursor
    await benchmark.getByRole("button", { name: "Cancel the benchmark" }).click();
    await expect(benchmark.getByRole("button", { name: "Benchmark this target again" })).toBeVisible();
    await expect(row(/^default .*[\d.]+ [um]s/)).toBeVisible();
    await expect(view.lensAction("Benchmark").first()).toBeVisible();
    await view.command("Fuselight: Show Benchmark");
    await expect(view.tab("Benchmark: Net")).toHaveCount(1);
  });

  await test.step("a renamed file keeps its page and its measurements", async () => {
    await page.keyboard.press("Control+b");
    await expect(page.getByRole("treeitem", { name: /\.png$/ })).toBeVisible(); // the last entry that moves the others
    const file = page.getByRole("treeitem", { name: "model.py" });
    await expect(async () => {
      await file.click();
      await page.keyboard.press("F2");
      const named = page.getByRole("textbox", { name: /file name/i });
      await expect(named).toHaveValue("model.py", { timeout: 2000 });
    }).toPass();
    await page.keyboard.type("net"); // replaces the part before the dot
    await page.keyboard.press("Enter");
    await view.tab(/^Benchmark: Net \(net\.py\)/).click();
    await expect(benchmark.getByRole("button", { name: /^Go to net\.py:/ }).first()).toBeVisible();
    await expect(row(/^default .*[\d.]+ [um]s/)).toBeVisible();
    await page.keyboard.press("Control+b");
  });

  for (const [name, theme] of [
    ["light", "Default Light Modern"],
    ["high-contrast", "Default High Contrast"],
  ]) {
    await test.step(`the ${name} theme`, async () => {
      await configure({ "workbench.colorTheme": theme }, (limit) =>
        expect(benchmark.locator(`body.vscode-${name}`)).toBeVisible(limit),
      );
      await view.screenshot(`benchmark-${name}`);
    });
  }

  await test.step("the graphs of the target, drawn next to its benchmark", async () => {
    await view.editor.click();
    await view.goToLine(lineOf("self.up(x)"));
    await view.command("Fuselight: Show Graphs");
    // The file was renamed, so its target runs again by itself, before the graphs are shown or after it.
    await expect(view.graphs.getByRole("button", { name: /^Target: Net/ })).toBeVisible(measured);
  });

  await test.step("the window of the graphs survives a reload, with the graphs of the last run", async () => {
    await view.reload();
    await expect(view.graphs.getByRole("button", { name: /^Target: Net/ })).toBeVisible();
    await expect(view.graphs.getByRole("status")).toContainText(/\(from \d{4}-\d\d-\d\d \d\d:\d\d\)/);
    await view.screenshot("graphs-again");
  });

  await test.step("the page survives the same reload, from the stored benchmark", async () => {
    await view.tab(/^Benchmark: Net/).click();
    await expect(heading).toBeVisible();
    await expect(row(/^default .*[\d.]+ [um]s/)).toBeVisible();
  });

  await test.step("it is removed after a confirmation", async () => {
    const remove = benchmark.getByRole("button", { name: "Remove this benchmark from the history" });
    const dialog = page.getByRole("dialog");
    await remove.click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expect(row(/^default .*[\d.]+ [um]s/)).toBeVisible();
    await remove.click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await expect(benchmark.getByText("Press Benchmark above Net to measure it.")).toBeVisible();
  });
});

/** How many colors are on a canvas: an empty one has one. */
function colors(canvas) {
  return canvas.first().evaluate((made) => {
    const { data } = made.getContext("2d").getImageData(0, 0, made.width, made.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
}
