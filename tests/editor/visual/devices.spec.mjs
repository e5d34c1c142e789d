/** The device that kernels are generated for: shown, chosen from a list with user devices, a wrong name. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "../harness/expect.mjs";
import { test } from "../harness/session.mjs";

test("the target device is shown and chosen, and a wrong name offers the nearest", async ({ session }) => {
  const { view, folder, configure } = await session({ files: { "devices.py": "import torch\n" } });
  const settings = path.join(folder, ".vscode", "settings.json");
  /** Open the list of devices, and again while a change of the focus closes it. */
  const open = (current, listed) =>
    expect(async () => {
      if (!(await listed.isVisible())) {
        await view.status(current).click({ timeout: 10_000 });
      }
      await expect(listed).toBeVisible({ timeout: 5000 });
    }).toPass({ timeout: 90_000 });
  const pick = async (name) => {
    await view.page.keyboard.type(name);
    await expect(view.quickPick).toHaveCount(1);
    await view.page.keyboard.press("Enter");
    await view.page.locator(".quick-input-widget").waitFor({ state: "hidden" });
  };

  await test.step("from the status bar, with figures, the current one marked", async () => {
    await open(
      /Fuselight target device, auto/,
      view.quickPick.filter({ hasText: "else h100-sxm - current" }),
    );
    await expect(view.quickPick.filter({ hasText: "94 GB" }).filter({ hasText: "yours" })).toBeVisible();
    await view.screenshot("devices");
    await pick("NVIDIA H200");
    await expect(view.status(/Fuselight target device, h200/)).toBeVisible();
    await view.onDisk(settings, '"fuselight.device": "h200"');
  });

  await test.step("from the menu, a user device", async () => {
    const choose = view.quickPick.filter({ hasText: "Choose Target Device" });
    await open(/Fuselight, /, choose);
    await choose.click();
    await expect(view.quickPick.filter({ hasText: "NVIDIA H200 - current" })).toHaveClass(/focused/);
    await pick("lab card");
    await expect(view.status(/Fuselight target device, lab card/)).toBeVisible();
  });

  await test.step("a wrong name offers the nearest", async () => {
    await configure({ "fuselight.device": "h1000" }, ({ timeout }) =>
      view.notified("There is no device `h1000`. Nearest: h100-sxm", timeout),
    );
    await expect(view.status(/Fuselight target device, auto/)).toBeVisible();
    await view.screenshot("wrong-device");
    await view.answer("Choose Target Device");
    await expect(view.quickPick.filter({ hasText: "Tesla T4" })).toBeVisible();
    await pick("GeForce RTX 4090");
    await expect(view.status(/Fuselight target device, rtx-4090/)).toBeVisible();
    await view.onDisk(settings, '"fuselight.device": "rtx-4090"');
  });

  await test.step("back to auto, which removes the setting", async () => {
    await open(/Fuselight target device, rtx-4090/, view.quickPick.first());
    await pick("the GPU that is there");
    await expect(view.status(/Fuselight target device, auto/)).toBeVisible();
    await expect.poll(() => fs.readFileSync(settings, "utf8")).not.toContain("fuselight.device");
  });
});
