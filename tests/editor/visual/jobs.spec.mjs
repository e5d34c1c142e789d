/** The logs of a job in a real editor: opened, on the lines of the source, compared with another job, closed. */

import fs from "node:fs";
import path from "node:path";
import { expect } from "@playwright/test";
import { root, test } from "../harness/session.mjs";

const recordings = path.join(root, "tests/recordings/editor");
const program = fs.readFileSync(path.join(recordings, "train.py"), "utf8");
const lineOf = (text) => program.split("\n").findIndex((line) => line.includes(text)) + 1;
const broken = lineOf("print(");

test("a job that ran elsewhere, from its logs to its lines and back", async ({ session }) => {
  const { view, page, folder } = await session({ files: { "train.py": program, "pyproject.toml": "" } });
  const job = view.benchmark; // the frame of every page
  for (const name of ["monday", "tuesday"]) {
    fs.cpSync(path.join(recordings, name), path.join(folder, "runs", name), { recursive: true });
  }

  await test.step("a folder without logs is answered with what to do", async () => {
    fs.mkdirSync(path.join(folder, "runs", "empty"));
    await view.commandThatAsks("Fuselight: Open a Trace of a Job");
    await view.chooseFolder(path.join(folder, "runs", "empty"));
    await view.notified("TORCH_TRACE");
  });

  await test.step("one command opens it, with its findings on their lines", async () => {
    await view.command("Notifications: Clear All Notifications");
    await view.commandThatAsks("Fuselight: Open a Trace of a Job");
    await view.chooseFolder(path.join(folder, "runs", "tuesday"));
    await expect(job.getByRole("heading", { name: "Job tuesday" })).toBeVisible();
    await expect(view.lens(/job tuesday: /).first()).toBeVisible();
    await view.command("View: Focus Problems");
    await expect(view.problems.filter({ hasText: "Fuselight job tuesday" }).first()).toBeVisible();
    await page.keyboard.press("Control+j"); // closes the panel
  });

  await test.step("its page names the first difference of ranks, and goes to its line", async () => {
    await page.keyboard.press("Control+b"); // the page is wider without the side bar
    await expect(job.getByRole("heading", { name: "Where ranks differ" })).toBeVisible();
    await expect(job.getByRole("heading", { name: "The start" })).toBeVisible();
    await job
      .getByRole("button", { name: `Go to train.py:${broken}` })
      .first()
      .click();
    await expect(view.cursorAt(broken)).toBeVisible();
    await view.screenshot("job");
  });

  await test.step("a second trace is compared with it, regressions first", async () => {
    await job.getByRole("combobox", { name: "Compare with" }).selectOption("another");
    await view.chooseFolder(path.join(folder, "runs", "monday"));
    await expect(job.getByRole("heading", { name: "Compared with monday" })).toBeVisible();
    await view.screenshot("job-compared");
  });

  await test.step("one command closes it, with its findings", async () => {
    await view.commandThatAsks("Fuselight: Close the Job");
    await view.choose("Close which job?", "tuesday");
    await expect(view.lens(/job tuesday: /)).toHaveCount(0);
    await expect(job.getByText("This job is closed.")).toBeVisible();
    await view.command("Fuselight: Close the Job");
    await expect(view.lens(/job (monday|tuesday): /)).toHaveCount(0);
  });
});
