/** Lenses of a file that something else covers while the extension starts: they are there when it comes to the front. */

import { expect } from "@playwright/test";
import { test } from "../harness/session.mjs";

const model = `import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    return torch.relu(x)
`;

test("a file that the walkthrough covers from the start has its lenses when it is seen again", async ({
  session,
}) => {
  const { view } = await session({ files: { "model.py": model } });
  await expect(view.status(/Fuselight, /)).toBeVisible();
  await view.command("Fuselight: Get Started");
  await expect(view.page.getByText("Select the interpreter that has torch").first()).toBeVisible();
  await expect(view.ticked("Select the interpreter that has torch")).toBeVisible();
  await view.screenshot("covered");
  await view.tab("model.py").click();
  await expect(view.lensAction("Run").first()).toBeVisible({ timeout: 30_000 });
  await view.screenshot("uncovered");
  await view.command("Extensions: Show Installed Extensions");
  await view.page.locator(".extension-list-item", { hasText: "Fuselight" }).first().click();
  await expect(view.preview.getByRole("heading", { name: "Fuselight" }).first()).toBeVisible();
  await expect(view.preview.locator("img")).toHaveCount(0); // that page loads no file of the package
  await view.screenshot("extension-page");
});
