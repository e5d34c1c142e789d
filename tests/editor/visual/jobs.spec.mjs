/** The logs of a job in a real editor: opened, on the lines of the source, compared with another job, closed, followed. */

import fs from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { expect } from "../harness/expect.mjs";
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

  await test.step("the menu of a folder opens it, and the report lists it", async () => {
    await page.keyboard.press("Control+b");
    await view.command("View: Close All Editors");
    await view.command("View: Show Explorer");
    await view.openFile("train.py");
    await unfold(page.getByRole("treeitem", { name: "runs" }));
    const entry = page.getByRole("menuitem", { name: "Open a Trace of a Job" });
    await expect(async () => {
      if (!(await entry.isVisible())) {
        await page.getByRole("treeitem", { name: "tuesday" }).click({ button: "right", timeout: 5000 });
      }
      await entry.click({ timeout: 5000 });
      await expect(entry).toHaveCount(0, { timeout: 1000 }); // a menu that has just opened ignores a click
    }).toPass({ timeout: 90_000 });
    await expect(job.getByRole("heading", { name: "Job tuesday" })).toBeVisible();
    await view.tab("train.py").click();
    await view.command("Focus on Report View");
    await view.widenSideBar(200);
    await unfold(view.report.filter({ hasText: /^job tuesday, .*rank 0/ }));
    await expect(view.report.filter({ hasText: /^Not available/ })).toBeVisible();
    await unfold(view.report.filter({ hasText: /^Kernels/ }));
    await view.screenshot("job-report");
  });

  await test.step("a kernel of the job opens as a text with its lines", async () => {
    await unfold(view.report.filter({ hasText: /^forward graph 1\/0/ }));
    await view.report
      .filter({ hasText: /^cpp_fused/ })
      .first()
      .click();
    await expect(view.group(1)).toContainText("cpp_fused");
    await view.screenshot("job-kernel");
  });

  await test.step("its graphs are drawn", async () => {
    await view.tab("train.py").click();
    await view.command("Focus on Report View");
    const entry = view.report.filter({ hasText: /^job tuesday, / });
    await entry.hover();
    await entry.getByRole("button", { name: "Show Graphs" }).click();
    await expect(view.graphs.getByRole("heading", { name: /^Graphs of job tuesday/ })).toBeVisible();
    await expect(view.graphs.getByRole("button", { name: /^Graph break GB0059/ }).first()).toBeVisible();
    await view.screenshot("job-graphs");
  });

  await test.step("it is closed with its page, and its findings go", async () => {
    await view.command("View: Close All Editors");
    await view.command("View: Show Explorer");
    await view.openFile("train.py");
    await view.goToLine(lineOf("def train")); // VS Code replaces a lens once it is visible
    await expect(view.lens(/job tuesday: /)).toHaveCount(0);
    await view.command("View: Focus Problems");
    await expect(view.problems.filter({ hasText: "job tuesday" })).toHaveCount(0);
    await page.keyboard.press("Control+j"); // closes the panel
    await view.goToLine(1);
  });

  await test.step("a job that still runs is followed until it is stopped", async () => {
    const [recorded] = fs.readdirSync(path.join(recordings, "tuesday")).sort(); // of rank 0
    const records = gunzipSync(fs.readFileSync(path.join(recordings, "tuesday", recorded)));
    const begun = records.indexOf("\nV", records.length / 3) + 1; // whole records
    const log = path.join(folder, "runs", "live", recorded.replace(".gz", ""));
    fs.mkdirSync(path.dirname(log));
    await view.commandThatAsks("Fuselight: Follow a Job That Still Runs");
    await view.chooseFolder(path.dirname(log));
    await expect(view.status(/Following live: waiting for the first log/)).toBeVisible();
    await view.screenshot("job-followed");
    fs.writeFileSync(log, records.subarray(0, begun));
    const whole = view.lens("job live: 2 compiles, 2 graphs, 1 break");
    await expect(view.lens(/job live: /).first()).toBeVisible();
    await expect(view.status(/Following live: \d compiles?, \d findings? in 1 process/)).toBeVisible();
    await expect(whole).toHaveCount(0);
    fs.appendFileSync(log, records.subarray(begun));
    await expect(whole).toBeVisible();
    await view.status(/Following live: /).click();
    await expect(view.status(/Following live: /)).toHaveCount(0);
    await expect(job.getByRole("heading", { name: "Job live" })).toBeVisible();
    await expect(whole).toBeVisible();
    await view.screenshot("job-stopped");
  });

  await test.step("a folder that is dropped on the report is opened", async () => {
    await view.command("Focus on Report View");
    await expect(view.report.filter({ hasText: /^job live/ })).toBeVisible();
    await view.dropOnReport(path.join(folder, "runs", "monday"));
    await expect(job.getByRole("heading", { name: "Job monday" })).toBeVisible();
    await expect(view.lens(/job monday: /).first()).toBeVisible();
    await view.screenshot("job-dropped");
  });

  await test.step("where two files may be that of the job, it asks once, and remembers the answer", async () => {
    await view.commandThatAsks("Fuselight: Close the Job");
    await view.choose("Close which job?", "live");
    await expect(view.report.filter({ hasText: /^job live/ })).toHaveCount(0); // or the next command asks, too
    await view.command("Fuselight: Close the Job");
    await view.command("View: Close All Editors");
    await view.command("View: Show Explorer");
    fs.mkdirSync(path.join(folder, "copy"));
    fs.writeFileSync(path.join(folder, "copy", "train.py"), program);
    await view.commandThatAsks("Fuselight: Open a Trace of a Job");
    await view.chooseFolder(path.join(folder, "runs", "monday"));
    await view.notified("Which local file is");
    await view.screenshot("job-question");
    await view.answer("copy/train.py");
    await expect(job.getByRole("heading", { name: "Job monday" })).toBeVisible();
    const answers = path.join(folder, ".fuselight", "job-files.json");
    await view.onDisk(answers, "copy/train.py");
    for (const again of [false, true]) {
      if (again) {
        await view.command("Fuselight: Close the Job");
        await view.command("View: Close All Editors");
        await view.commandThatAsks("Fuselight: Open a Trace of a Job");
        await view.chooseFolder(path.join(folder, "runs", "monday"));
      }
      await job
        .getByRole("button", { name: /^Go to copy\/train\.py:/ })
        .first()
        .click();
      await expect(view.lens(/job monday: /).first()).toBeVisible();
    }
  });
});

/** Opens a row of a tree; a row that is open stays so. */
async function unfold(row) {
  const first = row.first();
  await first.waitFor();
  if ((await first.getAttribute("aria-expanded")) === "false") {
    await first.locator(".monaco-tl-twistie").click();
  }
}
