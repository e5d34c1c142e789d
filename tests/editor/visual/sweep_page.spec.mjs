/** A sweep's page in a browser, as a file: its script runs under its own policy, and its table searches and sorts. */

import { spawnSync } from "node:child_process";
import path from "node:path";
import { test } from "@playwright/test";
import { tools } from "../harness/code_server.mjs";
import { expect } from "../harness/expect.mjs";
import { root } from "../harness/session.mjs";

test("the table of a sweep searches, filters and sorts", async ({ page }, testInfo) => {
  const file = testInfo.outputPath("sweep.html");
  const PYTHONPATH = ["compiler", "server", "."].map((one) => path.join(root, one)).join(path.delimiter);
  const made = spawnSync(tools.python, ["-m", "tests.support.sweep_page", file], {
    cwd: root,
    env: { ...process.env, PYTHONPATH },
    encoding: "utf8",
  });
  expect(made.stderr).toBe("");
  const errors = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`file://${file}`);
  await expect(page.getByRole("heading", { name: "Compared with last week" })).toBeVisible();
  const count = page.getByRole("status");
  const names = () => page.locator("#rows tbody tr:not([hidden]) td:first-child").allTextContents();

  await expect(count).toHaveText("7 of 7 rows");
  await page.getByLabel("Search").fill("gpt2 CHECK");
  await expect(count).toHaveText("1 of 7 rows");
  await page.getByLabel("Search").fill("");
  await page.getByLabel("Status").selectOption("failed");
  expect(await names()).toEqual(["resnet"]);
  await page.getByLabel("Status").selectOption("");
  await page.getByLabel("Job").selectOption("bench");
  await expect(count).toHaveText("3 of 7 rows");

  const heading = page.getByRole("button", { name: "speed-up" });
  await heading.click();
  expect(await names()).toEqual(["vit", "bert", "gpt2"]); // by size: 0.9, 1.5, 10.5
  await expect(page.locator("th[aria-sort=ascending]")).toHaveText("speed-up");
  await heading.click();
  expect(await names()).toEqual(["gpt2", "bert", "vit"]);
  await page.getByLabel("Job").selectOption("");
  expect((await names()).slice(0, 3)).toEqual(["gpt2", "bert", "vit"]); // rows without a value come last

  await page.emulateMedia({ media: "print" });
  await expect(page.getByLabel("Search")).toBeHidden();
  expect(errors).toEqual([]);
});
