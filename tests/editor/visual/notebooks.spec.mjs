/** A notebook: its cells are one program, and lenses, findings and fixes are in them. */

import path from "node:path";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const cells = [
  ["markdown", "# A gate\nOpen for inputs with a positive mean."],
  ["code", "import torch\nfrom torch import nn\n%matplotlib inline"],
  ["code", "width = 16"],
  [
    "code",
    `# fuselight: Gate()(f32[8, 16])
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        y = self.linear(x)
        if y.mean() > 0:
            y = torch.relu(y)
        else:
            y = y - 1
        return y`,
  ],
  ["code", "loss = Gate()(torch.rand(8, 16)).sum()\nloss.backward()"],
];
const notebook = JSON.stringify({
  nbformat: 4,
  cells: cells.map(([cell_type, source]) => ({ cell_type, source })),
});

test("lenses, findings and fixes are in the cells of a notebook", async ({ session }) => {
  const { view, page, folder } = await session({ files: { "note.py": "# first\n", "gate.ipynb": notebook } });
  const file = path.join(folder, "gate.ipynb");
  await view.openFile("gate.ipynb");

  await test.step("the question names what runs", async () => {
    await view.pressUntilAsked("Run", "under torch.compile");
    await expect(view.dialog("run the cells up to cell 3 of gate.ipynb and call Gate")).toBeVisible();
    await view.allow();
  });

  await test.step("the finding is in its cell", async () => {
    await expect(view.lens(/2 graphs, 1 break/).first()).toBeVisible();
    await expect(view.warnings.first()).toBeVisible();
    await view.screenshot("notebook");
  });

  await test.step("the report, commands and the status follow the cell", async () => {
    await page.locator(".view-line", { hasText: "if y.mean()" }).click();
    await expect(view.status(/Fuselight, ready/)).toBeVisible();
    await view.command("Fuselight: Show Details in Report");
    await expect(view.report.filter({ hasText: "2 graphs, 1 break" }).first()).toBeVisible();
    await view.command("View: Show Explorer");
  });

  await test.step("a quick fix edits the cell", async () => {
    const entry = view.quickFixes.filter({ hasText: "torch.where" }).first();
    await expect(async () => {
      await page.keyboard.press("Escape"); // this closes the menu, or leaves the cell
      await page.locator(".view-line", { hasText: "if y.mean()" }).click();
      await page.keyboard.press("Control+.");
      await expect(entry).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 150_000 });
    await entry.click();
    await expect(page.locator(".view-line", { hasText: "torch.where(" }).first()).toBeVisible({
      timeout: 120_000,
    });
    await view.save();
    await expect(view.lens(/1 graph, no breaks/).first()).toBeVisible();
    await view.screenshot("notebook-fixed");
    await view.onDisk(file, "torch.where(");
  });
});
