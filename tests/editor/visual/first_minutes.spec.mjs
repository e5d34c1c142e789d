/** The first minutes of a new user in a folder: interpreter, questions, stored answers. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "@playwright/test";
import { test } from "../harness/session.mjs";

const model = `import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    print("step")
    return torch.relu(x)
`;
const found = /1 graph, 1 break, 0 recompilations\s*\|\s*(?:inputs from line 4|recompiles if)/;
const shownAgain = /1 graph, 1 break, 0 recompilations \(from \d{4}-\d\d-\d\d \d\d:\d\d\)/;
const pages = [
  ["Provide example inputs", "Two lines are two calls of the same object", "walkthrough-inputs"],
  ["Save, and read the findings", "To ignore a finding", "walkthrough-read"],
  ["Open the complete report", "Click an entry to go to its line", "walkthrough-details"],
];

test("from an empty profile to findings, and still there after a reload", async ({ session }) => {
  const { view, folder } = await session({ files: { "step.py": model } });

  await test.step("the interpreter is found, and the menu says why", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.status(/Fuselight, ready/).click();
    await expect(view.quickPick.filter({ hasText: path.join(folder, ".venv") })).toBeVisible();
    await view.screenshot("menu");
    await view.page.keyboard.press("Escape");
  });

  await test.step("a question is repeated until it is answered, and the answer can be undone", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.pressUntilAsked("Run", "under torch.compile");
    await view.allow("Cancel");
    await view.pressUntilAsked("Run", "under torch.compile");
    await view.screenshot("consent-dialog");
    await view.allow("Not in This Folder");
    await expect(view.status(/won't run code in this folder/)).toBeVisible();
    await view.pressUntilAsked("Run", "won't run code here");
    await view.allow("Ask Again");
    await view.allow("Run");
    await expect(view.lens(found)).toBeVisible();
    await expect(view.warnings.first()).toBeVisible();
  });

  await test.step("another interpreter, chosen from a list", async () => {
    await view.command("Fuselight: Select Interpreter");
    const mine = view.quickPick.filter({ hasText: ".venv in the folder" });
    await expect(mine.filter({ hasText: /torch \d/ })).toBeVisible();
    await view.screenshot("interpreters");
    await view.page.keyboard.insertText("/no/such/python");
    await expect(view.quickPick.filter({ hasText: "Use This Path" })).toContainText("/no/such/python");
    await view.page.keyboard.press("Enter");
    await view.notified("`/no/such/python` cannot be used: no such file.");
    await view.page.keyboard.press("Escape");
  });

  await test.step("the walkthrough, opened while the extension starts", async () => {
    await view.reload();
    await expect(view.status(/Fuselight, /)).toBeVisible();
    await view.command("Fuselight: Get Started");
    await expect(view.page.getByText("Select the interpreter that has torch").first()).toBeVisible();
    await expect(view.walkthrough.getByText("It uses the first that works")).toBeVisible();
    await expect(view.ticked("Select the interpreter that has torch")).toBeVisible();
    await view.screenshot("walkthrough");
    for (const [step, says, picture] of pages) {
      await view.page.getByRole("button", { name: step }).first().click();
      await expect(view.walkthrough.getByText(says)).toBeVisible();
      await view.screenshot(picture);
    }
  });

  await test.step("the file that it covered has its lenses, and a run asks nothing again", async () => {
    await view.tab("step.py").click();
    await expect(view.lensAction("Run").first()).toBeVisible();
    await expect(view.status(/Fuselight, ready/)).toBeVisible();
    await expect(view.lens(shownAgain)).toBeVisible();
    await expect(view.warnings.first()).toBeVisible();
    await view.screenshot("reloaded");
    await view.save();
    await expect(view.lens(found)).toBeVisible();
    expect(fs.existsSync(path.join(folder, ".vscode"))).toBe(false);
  });

  await test.step("the extension's page", async () => {
    await view.command("Extensions: Show Installed Extensions");
    await view.page.locator(".extension-list-item", { hasText: "Fuselight" }).first().click();
    await expect(view.preview.getByRole("heading", { name: "Fuselight" }).first()).toBeVisible();
    await expect(view.preview.locator("img")).toHaveCount(0); // that page loads no file of the package
    await view.screenshot("extension-page");
  });
});
