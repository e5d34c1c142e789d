/** The first minutes of a new user in a folder: interpreter, questions, stored answers. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const model = `import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    print("step")
    return torch.relu(x)
`;
const found = /1 graph, 1 break\s*\|\s*(?:Run|recompiles if)/;
const shownAgain = /1 graph, 1 break \(from \d{4}-\d\d-\d\d \d\d:\d\d\)/;
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
    await view.commandThatAsks("Fuselight: Select Interpreter");
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

const pictures = `from dataclasses import dataclass

from torch import nn

from zoo.layers import Block, Patches


@dataclass
class Sizes:
    patch: int = 8
    width: int = 32
    blocks: int = 2
    classes: int = 10


class PictureNet(nn.Module):
    def __init__(self, sizes: Sizes):
        super().__init__()
        self.patches = Patches(sizes)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.blocks))
        self.head = nn.Linear(sizes.width, sizes.classes)

    def forward(self, pictures):
        tokens = self.patches(pictures)
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(tokens.mean(1))
`;
const layers = `import torch
from torch import nn


class Patches(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.cut = nn.Conv2d(3, sizes.width, sizes.patch, stride=sizes.patch)

    def forward(self, pictures):
        return self.cut(pictures).flatten(2).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.width)
        self.mix = nn.Linear(sizes.width, sizes.width)

    def forward(self, tokens):
        mixed = torch.relu(self.mix(self.norm(tokens)))
        if mixed.abs().max() > 100:
            mixed = mixed / 2
        return tokens + mixed
`;
const train = `import torch

from zoo.net import PictureNet, Sizes


def train(steps):
    net = PictureNet(Sizes())
    for _ in range(steps):
        loss = net(torch.randn(4, 3, 32, 32)).square().mean()
        loss.backward()


if __name__ == "__main__":
    train(steps=2)
`;
const tests = `import torch

from zoo.net import PictureNet, Sizes


def test_each_class_has_a_score():
    assert PictureNet(Sizes())(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
`;

test("a package without directives, from opening it to a verified fix", async ({ session }) => {
  const { view } = await session({
    files: {
      "zoo/net.py": pictures,
      "zoo/__init__.py": "",
      "zoo/layers.py": layers,
      "train.py": train,
      "tests/test_net.py": tests,
    },
  });
  const named = pictures.split("\n").findIndex((line) => line.startsWith("class PictureNet")) + 1;
  const branch = layers.split("\n").findIndex((line) => line.includes("> 100")) + 1;

  await test.step("a run finds no inputs, and says where they can come from", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.screenshot("package-opened");
    await view.pressUntilAsked("Run", "under torch.compile");
    await view.allow("Run");
    await expect(view.lensAction("Use the inputs of train.py")).toBeVisible({ timeout: 90_000 });
    await expect(view.lensAction("needs inputs: add a line")).toBeVisible();
    await view.command("View: Focus Problems");
    await expect(view.problems.filter({ hasText: "no inputs are known for PictureNet" })).toBeVisible();
    await view.screenshot("package-needs-inputs");
    await view.command("View: Hide Panel");
  });

  await test.step("a line whose shape fits the first layer, and is selected for typing", async () => {
    await view.lensAction("needs inputs: add a line").click();
    await expect(view.editor.getByText("# fuselight: PictureNet(Sizes())(f32[2, 3, 32, 32])")).toBeVisible();
    await view.screenshot("package-line-added");
    await expect(view.editor).toHaveClass(/\bfocused\b/);
    await expect(view.editor.locator(".selected-text").first()).toBeVisible();
    await view.page.keyboard.insertText("4, 3, 64, 64");
    await expect(view.editor.getByText("# fuselight: PictureNet(Sizes())(f32[4, 3, 64, 64])")).toBeVisible();
    await expect(view.lens("inputs from line 16")).toBeVisible();
    await view.command("File: Revert File");
    await expect(view.editor.getByText("# fuselight:")).toHaveCount(0);
  });

  await test.step("of several programs, a menu on the class offers each", async () => {
    const entry = (name) => view.quickFixes.filter({ hasText: `Use the inputs of ${name}` });
    await expect(async () => {
      await view.page.keyboard.press("Escape");
      await view.goToLine(named);
      await view.page.keyboard.press("Control+.");
      await expect(entry("train.py")).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 120_000 });
    await expect(
      view.quickFixes.filter({ hasText: "Insert a line with inputs for PictureNet" }),
    ).toBeVisible();
    await view.screenshot("package-choice");
    await entry("test_net.py").click();
    await expect(view.dialog("Run test_net.py to get the inputs of PictureNet?")).toBeVisible();
    await view.screenshot("package-choice-question");
    await view.allow("Cancel");
  });

  await test.step("one click takes the inputs of the package's own program", async () => {
    await view.pressUntilAsked("Use the inputs of train.py", "Run train.py to get the inputs of PictureNet?");
    await view.screenshot("package-question");
    await view.allow("Run on Each Save");
    const first = `Fix layers.py:${branch} first`;
    await expect(view.lens(first)).toBeVisible({ timeout: 90_000 });
    await view.screenshot("first-minute");
  });

  await test.step("the fix of that line is verified with the program's inputs", async () => {
    await view.lensAction(/^Fix layers/).click();
    await view.page.locator(".tab.active", { hasText: "layers.py" }).waitFor();
    await expect(view.cursorAt(branch)).toBeVisible();
    await expect(view.warnings.first()).toBeVisible();
    const fix = view.quickFixes.filter({ hasText: /^Use torch\.where: \d+ → 1 graphs?, same results/ });
    await expect(async () => {
      await view.page.keyboard.press("Escape");
      await view.goToLine(branch);
      await view.page.keyboard.press("Control+.");
      await expect(fix).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 120_000 });
    await view.screenshot("package-fix");
    await fix.click();
    await expect(view.warnings).toHaveCount(0);
    await expect(view.editor.getByText("torch.where(")).toBeVisible();
    await view.screenshot("package-fixed");
    await view.command("File: Revert File"); // else the next test is asked to save it
    await expect(view.editor.getByText("torch.where(")).toHaveCount(0);
  });
});
