/** The picture of a target's graphs: drawn after a run, navigated with keys, shown as a tree, in every theme. */

import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const model = `import torch
from torch import nn


def scaled(x):
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return y * 2


class Layer(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        if x.sum() > self.limit:
            x = x + 1
        return x


# fuselight: Net()(f32[4, 8])
# fuselight: Net()(f32[5, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Layer(0)
        self.second = Layer(10)

    def forward(self, x):
        x = scaled(x)
        print("scaled", x.shape)
        for layer in (self.first, self.second):
            x = layer(x)
        return x.sigmoid()
`;
const breaks = 32;
const long = `import torch


# fuselight: long(f32[4])
def long(x):
${"    x = x.sin() + 1\n    torch._dynamo.graph_break()\n".repeat(breaks)}    return x
`;
const lineOf = (text) => model.split("\n").findIndex((line) => line.includes(text)) + 1;

test("the graphs of a target, as a picture and as a tree", async ({ session }) => {
  const { view, configure } = await session({ files: { "layers.py": model, "long.py": long } });
  const { graphs, page } = view;

  await test.step("without a run, it offers to run the target", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.goToLine(lineOf("self.first = "));
    await view.command("Fuselight: Show Graphs");
    await expect(graphs.getByText("No graphs of Net in layers.py are available")).toBeVisible();
    await view.screenshot("graphs-nothing");
    await graphs.getByRole("button", { name: "Run the target under the compiler" }).click();
    await view.allow();
    await expect(graphs.getByRole("heading", { name: "Graphs of Net" })).toBeVisible();
    await expect(graphs.getByRole("status")).toContainText(/\d+ graphs, \d+ breaks/);
  });

  const box = (name) => graphs.getByRole("button", { name });
  await test.step("the picture", async () => {
    await expect(box(/^Target: Net, layers\.py:26\. Net\(\)\(f32\[4, 8\]\)/)).toBeVisible();
    await expect(box(/^Graph break GB0059: `print` cannot be traced, layers\.py:34/)).toBeVisible();
    await expect(box(/^Graph \d\/1, recompiled: scaled.*since x\.size\(0\) was 4, now 5/)).toBeVisible();
    await expect(box(/^Eager/).first()).toBeVisible();
    await expect(view.lens(/\d+ graphs, \d+ breaks/)).toBeVisible();
    await view.screenshot("graphs");
    await graphs.getByRole("button", { name: "Fit to the window (0)" }).click();
    await view.screenshot("graphs-fit");
  });

  await test.step("the window runs and loads only its own files", async () => {
    const refused = await graphs.locator("body").evaluate(async (body) => {
      const tried = (name, fields) =>
        new Promise((done) => {
          const report = (event) => done(event.effectiveDirective);
          document.addEventListener("securitypolicyviolation", report, { once: true });
          body.append(Object.assign(document.createElement(name), fields));
        });
      return [
        await tried("script", { textContent: "window.ran = true" }),
        await tried("style", { textContent: "body { color: red }" }),
        await tried("img", { src: "https://example.com/a.png" }),
      ];
    });
    expect(refused).toEqual(["script-src-elem", "style-src-elem", "img-src"]);
  });

  await test.step("keys follow the arrows, and Enter goes to the line", async () => {
    await box(/^Target: Net/).focus();
    await page.keyboard.press("ArrowDown");
    await expect(box(/^Frame 0\/0: Net\.forward/)).toBeFocused();
    await page.keyboard.press("ArrowDown");
    await expect(box(/^Graph break GB0025: .*reached from line 33/)).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(view.cursorAt(lineOf("graph_break()"))).toBeVisible();
  });

  await test.step("the tree has the same content", async () => {
    await graphs.getByRole("button", { name: "Show as a tree" }).click();
    const row = (name) => graphs.getByRole("treeitem", { name });
    await expect(graphs.getByRole("tree", { name: /^Graphs of Net/ })).toBeVisible();
    await expect(row(/^Target: Net/)).toBeVisible();
    await row(/^Target: Net/).focus();
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await expect(row(/^Target: Net/)).toHaveAttribute("aria-expanded", "true");
    await page.keyboard.press("ArrowRight");
    await expect(row("Net()(f32[4, 8])")).toBeFocused();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await expect(row(/^calls Frame 0\/0: Net\.forward/)).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(row(/^Frame 0\/0: Net\.forward/)).toBeFocused();
    await page.keyboard.press("*");
    await view.screenshot("graphs-tree");
    await page.keyboard.press("End");
    await page.keyboard.press("Home");
    await expect(row(/^Target: Net/)).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(view.cursorAt(lineOf("class Net"))).toBeVisible();
  });

  await test.step("an edit and a save redraw it", async () => {
    await view.goToLine(lineOf("print("));
    await view.command("Delete Line");
    await view.save();
    await graphs.getByRole("button", { name: "Show as a picture" }).click();
    await expect(box(/^Graph break GB0059/)).toHaveCount(0);
    await expect(box(/^Graph break GB0170/).first()).toBeVisible();
  });

  for (const [name, theme] of [
    ["light", "Default Light Modern"],
    ["high-contrast", "Default High Contrast"],
  ]) {
    await test.step(`the ${name} theme`, async () => {
      await configure({ "workbench.colorTheme": theme }, (limit) =>
        expect(graphs.locator(`body.vscode-${name}`)).toBeVisible(limit),
      );
      await graphs.getByRole("button", { name: "Zoom in (+)" }).click();
      await view.screenshot(`graphs-${name}`);
    });
  }

  await test.step("the report links to it", async () => {
    await view.lensAction("Details").first().click();
    await view.report.first().hover();
    await view.report.first().getByRole("button", { name: "Show Graphs" }).click();
    await expect(view.tab("Graphs: Net")).toHaveCount(1);
    await expect(box(/^Target: Net/)).toBeVisible();
  });

  await test.step("many equal graphs are one box with a count", async () => {
    await view.command("View: Show Explorer");
    await view.openFile("long.py");
    await view.goToLine(5); // the editor has the focus afterwards: a save that comes too early is lost
    await view.save();
    await expect(view.lens(`${breaks} graphs, ${breaks} breaks`)).toBeVisible();
    await view.command("Fuselight: Show Graphs");
    await expect(graphs.getByRole("heading", { name: "Graphs of long" })).toBeVisible();
    await expect(box(/^Graph 0\/0 to \d+\/0 × \d+: long/)).toBeVisible();
    await expect(box(/^Graph break GB0025 × \d+: requested by.*32 lines, 7 to 69/)).toBeVisible();
    await view.screenshot("graphs-folded");
  });
});
