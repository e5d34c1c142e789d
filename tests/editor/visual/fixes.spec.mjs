/** Fixes that change behavior are previewed and applied with a button, also after a reload. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

const step = `import torch


# fuselight: step(f32[4, 8])
@torch.compile
def step(x):
    y = torch.relu(x)
    print("step", y.shape)
    return y + 1
`;
const changes = "Skip `print` in compiled code";
const guard = "if not torch.compiler.is_compiling():";
const found = "2 graphs, 1 break";

test("a fix that changes behavior is previewed, applied and discarded, also after a reload", async ({
  session,
}) => {
  const { view, file, folder } = await session({
    files: { "step.py": step },
  });
  const line = step.split("\n").findIndex((text) => text.includes("print")) + 1;
  const entry = (text) => view.quickFixes.filter({ hasText: text }).first();

  /** Opens the menu at the line until it has the entry, and chooses it. */
  async function chooseFix(text) {
    await expect(async () => {
      await view.page.keyboard.press("Escape");
      await view.command("Quick Fix...");
      await expect(entry(text)).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 150_000 });
    await entry(text).click();
    await expect(view.tab("Fix: Skip")).toBeVisible({ timeout: 120_000 });
  }

  await test.step("Apply applies all of the preview", async () => {
    await expect(view.lensAction("Run").first()).toBeVisible();
    await view.save();
    await view.notified("under torch.compile");
    await view.answer("Run");
    await expect(view.lens(found).first()).toBeVisible();
    await view.goToLine(line);
    await chooseFix(changes);
    await expect(view.diff.filter({ hasText: guard.replaceAll(" ", "\u00a0") }).first()).toBeVisible();
    await expect(view.status(/Fuselight, starting/)).toHaveCount(0); // the preview is in no folder
    await expect(view.status(/Fuselight, /)).toBeVisible();
    await view.screenshot("fix-preview");
    await view.titleAction("Apply Previewed Fix").first().click();
    await expect(view.tab("Fix: Skip")).toHaveCount(0);
    await view.save();
    await view.onDisk(file, guard);
    await expect(view.lens("1 graph, no breaks").first()).toBeVisible();
  });

  await test.step("after a reload, the preview opens again, and Discard changes nothing", async () => {
    const stored = path.join(folder, ".fuselight", "captures");
    const written = () => fs.readdirSync(stored).map((name) => fs.statSync(path.join(stored, name)).mtimeMs);
    const last = Math.max(...written());
    fs.writeFileSync(file, step); // a checkout: it runs again
    await expect.poll(() => Math.max(...written()), { timeout: 120_000 }).toBeGreaterThan(last);
    await expect(view.lens(found).first()).toBeVisible();
    await view.reload();
    await expect(view.status(/Fuselight, ready/)).toBeVisible();
    await expect(view.lens(found).first()).toBeVisible();
    await view.goToLine(line);
    await chooseFix(changes);
    await view.screenshot("fix-preview-reloaded");
    await view.titleAction("Discard Previewed Fix").first().click();
    await expect(view.tab("Fix: Skip")).toHaveCount(0);
    expect(fs.readFileSync(file, "utf8")).toBe(step);
  });
});
