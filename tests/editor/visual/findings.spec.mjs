/** What a user sees with the packaged extension installed: squiggles, lenses, Problems, hover, quick fix, report. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "../harness/expect.mjs";
import { root, test } from "../harness/session.mjs";

const example = fs.readFileSync(path.join(root, "examples/gpt2_breaks.py"), "utf8");
const lineOf = (text) => example.split("\n").findIndex((line) => line.includes(text)) + 1;
const gate = `"""A gate that is open for inputs with a positive mean."""

import torch


# fuselight: Gate()(f32[8, 16])
class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        y = self.linear(x)
        if y.mean() > 0:
            y = torch.relu(y)
        else:
            y = y - 1
        return y
`;
const analyzed = /Fuselight, ready\. .*analyzed/;

const encoder = `import torch
from torch import nn


# fuselight: Encoder()(i64[4, 32] % 100, 2)
class Encoder(nn.Module):
    """Token ids (batch, length) to vectors (batch, length, width)."""

    def __init__(self, width=16):
        super().__init__()
        self.tokens = nn.Embedding(100, width)
        self.mix = nn.Linear(width, width)
        self.rate = 2

    def forward(self, ids, layers):
        x = self.tokens(ids)
        for _ in range(layers):
            mixed = torch.relu(self.mix(x))
            x = x + mixed * self.rate
        return x
`;

test("a save shows the findings on their lines, and an edit changes them", async ({ session }) => {
  const { view, file } = await session({ files: { "gpt2_breaks.py": example, "gate.py": gate } });

  await test.step("the first run asks", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.goToLine(lineOf("class GPT2"));
    await view.save();
    await view.notified("under torch.compile");
    await view.screenshot("consent");
    await view.answer("Run");
  });

  await test.step("squiggles and lenses", async () => {
    const found = view.lens(/3 graphs, 2 breaks/);
    await expect(found.first()).toBeVisible();
    await expect(view.status(analyzed)).toBeVisible();
    await view.goToLine(lineOf("print("));
    await expect(view.warnings.first()).toBeVisible();
    await view.screenshot("findings");
  });

  await test.step("hover", async () => {
    await view.command("Fuselight: Go to Next Finding");
    await view.command("Show or Focus Hover");
    await expect(view.hover.filter({ hasText: "GB0059" }).first()).toBeVisible();
    await expect(view.hover.filter({ hasText: /directive on line \d+/ }).first()).toBeVisible();
    await expect(view.page.getByText("Checking for quick fixes").first()).toBeHidden();
    await view.screenshot("hover");
    await view.page.keyboard.press("Escape");
  });

  await test.step("Problems", async () => {
    await view.command("View: Focus Problems");
    await expect(view.problems.filter({ hasText: "GB0059" }).first()).toBeVisible();
    await view.screenshot("problems");
    await view.problemsFilter.fill("FL201"); // the list draws only visible entries
    await expect(view.problems.filter({ hasText: "FL201" }).first()).toBeVisible();
    await view.problems.locator("a", { hasText: "FL201" }).first().click();
    await expect(view.preview.getByRole("heading", { name: /^FL201/ })).toBeVisible();
    await view.screenshot("page-of-code");
    await view.command("View: Close Editor");
    await view.problemsFilter.fill("");
    await view.command("View: Hide Panel");
  });

  await test.step("the report", async () => {
    await view.lensAction("Details").first().click();
    await expect(view.report.filter({ hasText: "Graph breaks" }).first()).toBeVisible();
    await expect(view.report.filter({ hasText: "GB0059" }).first()).toBeVisible();
    await view.widenSideBar(200);
    await view.page.mouse.move(0, 0);
    await expect(view.hover).toHaveCount(0); // of the code under the lens that was clicked
    await view.screenshot("report");
  });

  await test.step("quick fix", async () => {
    await view.command("View: Focus Active Editor Group");
    await view.goToLine(lineOf("print("));
    await view.command("Fuselight: Go to Next Finding");
    const ignore = view.quickFixes.filter({ hasText: /ignore/i }).first();
    await expect(async () => {
      await view.page.mouse.move(700, 5);
      await view.page.mouse.move(0, 0);
      await expect(view.page.getByText("Close (Ctrl+W)")).toBeHidden({ timeout: 1000 }); // it would cover the path
      if (!(await ignore.isVisible())) {
        await view.command("Quick Fix..."); // a late change of the focus closes the menu
      }
      await expect(ignore).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 90_000 });
    await view.screenshot("quick-fix");
    await ignore.click();
    await expect(view.lens("(before your edit)").first()).toBeVisible(); // the edit comes after the click
    await view.save();
    await view.onDisk(file, "# fuselight: ignore[");
  });

  await test.step("an edit, saved", async () => {
    await expect(view.status(analyzed)).toBeVisible();
    await view.goToLine(lineOf("print("));
    await view.command("Delete Line");
    await expect(view.lens(/\(before your edit\)/).first()).toBeVisible();
    await view.screenshot("stale");
    await view.save();
    // The variable that compiles the class uses its inputs and has the same lens.
    const now = view.lens(/2 graphs, 1 break/);
    await expect(now.first()).toBeVisible();
    await expect(view.lens("(before your edit)")).toHaveCount(0);
    await expect(view.status(analyzed)).toBeVisible();
    await view.screenshot("edited");
    await view.widenSideBar(-200);
  });

  await test.step("a break that is typed, not saved", async () => {
    const line = lineOf("* warm_up");
    await view.goToLine(line);
    for (const [index, text] of ["if x.sum() > 0:", "x = x / x.sum()"].entries()) {
      await view.command("Insert Line Below"); // a busy editor can lose the Enter key
      await expect(view.cursorAt(line + 1 + index)).toBeVisible();
      await view.page.keyboard.type(text);
      await view.page.keyboard.press("Escape"); // Enter would accept a suggestion
    }
    await expect(view.lens("edit: +1 break (predicted)").first()).toBeVisible();
    await view.goToLine(line);
    await view.command("Fuselight: Go to Next Finding");
    await expect(view.cursorAt(line + 1)).toBeVisible();
    await view.command("Show or Focus Hover");
    await expect(view.hover.filter({ hasText: "Predicted from your edit" }).first()).toBeVisible();
    await expect(view.page.getByText("Checking for quick fixes").first()).toBeHidden();
    await view.screenshot("live");
    await view.page.keyboard.press("Escape");
    await expect(view.report.filter({ hasText: "Predicted from your edit (1)" }).first()).toBeVisible();
    const run = view.quickFixes.filter({ hasText: "Run GPT2 to look for fixes: its code has changed" });
    await expect(async () => {
      if (!(await run.first().isVisible())) {
        await view.command("Quick Fix...");
      }
      await expect(run.first()).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 90_000 });
    await view.screenshot("unsaved-fix");
    await view.page.keyboard.press("Escape");
    expect(fs.readFileSync(file, "utf8")).not.toContain("x.sum()");
    await expect(async () => {
      await view.page.keyboard.press("Control+z");
      await expect(view.lens("edit: +1 break (predicted)")).toHaveCount(0, { timeout: 500 });
    }).toPass();
    await view.command("File: Revert File"); // half of it may be left, and the next test would be asked to save it
    await expect(view.lens("(before your edit)")).toHaveCount(0);
    await expect(view.report.filter({ hasText: "Predicted from your edit" })).toHaveCount(0);
  });

  await test.step("a verified fix, applied and undone", async () => {
    await view.openFile("gate.py");
    const found = view.lens("2 graphs, 1 break");
    await expect(async () => {
      await view.save(); // the editor of a tab that was just opened does not always have the focus yet
      await expect(found.first()).toBeVisible({ timeout: 30_000 });
    }).toPass({ timeout: 120_000 });
    await view.goToLine(14);
    const fix = view.quickFixes
      .filter({ hasText: "Use torch.where: 2 → 1 graphs, same results" })
      .filter({ hasNotText: "still comparing" });
    await expect(async () => {
      await view.page.keyboard.press("Escape"); // the menu shows what was verified when it opened
      await view.command("Quick Fix...");
      await expect(fix).toBeVisible({ timeout: 3000 });
    }).toPass({ timeout: 120_000 });
    await view.page.mouse.move(0, 0);
    await view.screenshot("verified-fix");
    await fix.click();
    await expect(view.lens("1 graph, no breaks (verified)").first()).toBeVisible();
    await expect(view.lens("line 14: break gone").first()).toBeVisible();
    await expect(view.warnings).toHaveCount(0);
    await view.screenshot("fixed");
    await view.goToLine(14); // the editor has the focus then
    await view.page.keyboard.press("Control+z");
    await expect(found.first()).toBeVisible();
    await expect(view.lens("(verified)")).toHaveCount(0);
    await expect(view.lens("(before your edit)")).toHaveCount(0);
    await expect(view.warnings.first()).toBeVisible();
  });
});

test("a forecast is in the lens, the hover and the report, next to the shapes of the last run", async ({
  session,
}) => {
  const { view } = await session({ files: { "encoder.py": encoder } });

  await test.step("what would compile a target again", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.save();
    await view.notified("under torch.compile");
    await view.answer("Run");
    await expect(view.lens("recompiles if the batch or the sequence length changes")).toBeVisible();
    await view.goToLine(encoder.split("\n").findIndex((line) => line.startsWith("class")) + 1);
    await view.command("Show or Focus Hover");
    const hover = view.hover.filter({ hasText: "Encoder recompiles if:" }).first();
    await expect(hover).toContainText("the batch changes (ids.size(0): 4 → 3): one more compile");
    await expect(hover).toContainText("torch._dynamo.mark_dynamic(ids, 0)");
    await view.screenshot("forecast-hover");
    await view.page.keyboard.press("Escape");
    await view.page.keyboard.press("Escape");
    await view.lensAction("Details").first().click();
    const change = view.report.filter({ hasText: "the batch changes" }).first();
    await expect(async () => {
      if (!(await change.isVisible())) {
        await view.report.filter({ hasText: "Recompiles if" }).first().click();
      }
      await expect(change).toBeVisible({ timeout: 5000 });
    }).toPass();
    await expect(view.hint("f32[4, 32, 16]").first()).toBeVisible();
    await view.widenSideBar(180);
    await view.screenshot("forecast");
    await view.widenSideBar(-180);
  });

  await test.step("inlay hints, switched", async () => {
    const shown = view.hint("f32[4, 32, 16]");
    const assigned = await shown.count();
    await view.command("Fuselight: Switch Inlay Hints"); // after calls, too
    await expect.poll(() => shown.count()).toBeGreaterThan(assigned);
    await view.command("Fuselight: Switch Inlay Hints");
    await expect(shown).toHaveCount(0);
    await view.command("Fuselight: Switch Inlay Hints");
    await expect(shown).toHaveCount(assigned);
  });
});
