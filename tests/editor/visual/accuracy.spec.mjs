/** A compiled result that is wrong: from the lens to the line, its hover and the report, and what an edit makes of it. */

import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

/**
 * A size that is rounded to tens is traced as the size itself once the size is dynamic, which it is in the second call.
 * No code is generated, so that runs are short.
 */
const loss = `import torch


# fuselight: loss_per_token(f32[34, 8])
# fuselight: loss_per_token(f32[37, 8])
@torch.compile(backend="eager")
def loss_per_token(losses):
    padded = round(losses.shape[0], -1)
    total = losses.abs().sum()
    mean = total / padded
    return mean.sqrt()
`;
const wrong = loss.split("\n").findIndex((line) => line.includes("padded = round")) + 1;
const verdict = new RegExp(`results differ from eager: line ${wrong}`);

test("a wrong result, from the lens to its line", async ({ session }) => {
  const { view, page } = await session({ files: { "loss.py": loss, "pyproject.toml": "" } });

  await test.step("one click compares, after the question", async () => {
    await view.pressUntilAsked("Accuracy", "under torch.compile");
    await view.allow();
    // A short run can end before the editor asks for the lenses again.
    await expect(view.lensAction("Cancel Accuracy").or(view.lens(verdict)).first()).toBeVisible();
    await expect(view.lens(verdict)).toBeVisible({ timeout: 240_000 });
    await expect(view.lensAction("Accuracy").first()).toBeVisible();
  });

  await test.step("the line is underlined, and its hover has the cause", async () => {
    await expect(page.locator(".squiggly-error")).toBeVisible();
    await view.goToLine(wrong);
    await view.command("Fuselight: Go to Next Finding");
    await page.mouse.move(0, 0); // a move would hide the hover
    await view.command("Show or Focus Hover");
    await expect(
      view.hover.filter({ hasText: /results of .loss_per_token. differ from eager/ }).first(),
    ).toBeVisible();
    await expect(view.hover.filter({ hasText: "begin to differ in TorchDynamo" }).first()).toBeVisible();
    await expect(view.hover.filter({ hasText: "skip_nnmodule_hook_guards = False" }).first()).toBeVisible();
    await expect(page.getByText("Checking for quick fixes").first()).toBeHidden();
    await view.screenshot("accuracy");
    await page.keyboard.press("Escape");
  });

  await test.step("the quick fix of a repro searches for it, and says why there is none", async () => {
    const repro = view.quickFixes.filter({ hasText: "Write a repro for PyTorch" }).first();
    await expect(async () => {
      await page.keyboard.press("Escape");
      await view.command("Quick Fix...");
      await expect(repro).toBeVisible({ timeout: 5000 });
    }).toPass();
    await repro.click();
    await view.notified("Writing a repro");
    await view.notified("No repro of loss_per_token: the fault is in tracing");
    await view.command("Notifications: Clear All Notifications");
  });

  await test.step("the report has each call", async () => {
    await view.lensAction(verdict).click();
    const results = view.report.filter({ hasText: /^Accuracy/ });
    await expect(results.first()).toBeVisible();
    await results.first().click();
    await page.keyboard.press("ArrowRight");
    await expect(view.report.filter({ hasText: "Call 2: loss_per_token" }).first()).toBeVisible();
    await view.screenshot("accuracy-report");
  });

  await test.step("an edit makes the verdict old", async () => {
    await view.command("View: Focus Active Editor Group");
    await view.goToLine(wrong);
    await view.command("Insert Line Below");
    await expect(view.lens(/\(before your edit\)/).first()).toBeVisible();
    await expect(view.lens(verdict)).toBeVisible();
    await view.command("File: Revert File"); // a tab with changes asks before it is closed, also for the next test
  });
});
