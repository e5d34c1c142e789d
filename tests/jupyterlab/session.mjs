/**
 * A browser with a notebook in JupyterLab: a person saves it, answers the question, reads a finding and its hover, and
 * runs the cells. Writes what it saw, as JSON, and screenshots.
 *
 * Invariant: it waits for what a person waits for. What the test judges stands in the file; this script judges nothing.
 */

import fs from "node:fs";
import path from "node:path";
import { chromium } from "../editor/node_modules/playwright-core/index.mjs";

const { url, executable, flags, folder } = JSON.parse(process.argv[2]);
const patience = 100_000; // a busy machine; a quiet one needs seconds
const seen = {};
/** Messages of the language server's connection, in their order. */
const sent = [];

const browser = await chromium.launch({
  executablePath: executable,
  args: [...flags, "--disable-gpu", "--disable-background-networking", "--no-first-run"],
});
const page = await browser.newPage({ viewport: { width: 1200, height: 860 }, reducedMotion: "reduce" });
page.setDefaultTimeout(patience);
page.on("websocket", (socket) => {
  if (socket.url().includes("/lsp/ws/fuselight")) {
    socket.on("framesent", ({ payload }) => sent.push(JSON.parse(String(payload))));
  }
});

async function untilSent(method) {
  const deadline = Date.now() + patience;
  for (;;) {
    const message = sent.find((each) => each.method === method);
    if (message !== undefined) {
      return message;
    }
    if (Date.now() > deadline) {
      throw new Error(
        `JupyterLab has not sent ${method}, only ${sent.map((each) => each.method).join(", ")}`,
      );
    }
    await page.waitForTimeout(100);
  }
}

const screenshot = (name) =>
  page.screenshot({ path: path.join(folder, `${name}.png`), animations: "disabled" });
const cell = (number) => page.locator(".jp-Notebook .jp-CodeCell").nth(number - 1);

try {
  await page.goto(url);
  await cell(1).waitFor();
  seen.capabilities = (await untilSent("initialize")).params.capabilities;
  seen.opened = (await untilSent("textDocument/didOpen")).params.textDocument;

  await page.keyboard.press("Control+s");
  const question = page.locator(".jp-Dialog", { hasText: "Message from fuselight" });
  seen.question = await question.innerText();
  await screenshot("question");
  await question.getByRole("button", { name: "Run", exact: true }).click();

  const underlined = page.locator(".cm-lintRange-warning");
  await underlined.first().waitFor();
  seen.underlined = await underlined.allInnerTexts();
  seen.cell = await page
    .locator(".jp-Notebook .jp-CodeCell", { has: underlined })
    .first()
    .locator(".cm-content")
    .innerText();

  const hover = page.locator(".lsp-hover");
  await underlined.first().hover();
  await page.keyboard.down("Control"); // jupyterlab-lsp asks for a hover if the mouse moves while this key is down
  const { x, y } = await underlined.first().boundingBox();
  for (let turn = 0; turn < 50 && !(await hover.isVisible()); turn += 1) {
    await page.mouse.move(x + 8 + (turn % 3) * 8, y + 6, { steps: 4 }); // a move while it waits for an answer is lost
    await hover.waitFor({ timeout: 2000 }).catch(() => undefined);
  }
  seen.hover = await hover.innerText();
  await screenshot("hover");
  await page.keyboard.up("Control");
  await page.mouse.move(5, 5);

  await page.getByRole("menuitem", { name: "Run", exact: true }).click();
  await page.getByText("Run All Cells", { exact: true }).click();
  const report = page.locator(".jp-OutputArea .fuselight");
  await report.waitFor();
  seen.report = await report.innerText();
  seen.outputs = await page.locator(".jp-OutputArea-output").allInnerTexts();
  await screenshot("kernel");
} catch (error) {
  seen.error = String(error);
  await screenshot("failed");
} finally {
  seen.sent = sent.map(({ method, id }) => method ?? `answer ${id}`);
  fs.writeFileSync(path.join(folder, "seen.json"), JSON.stringify(seen, null, 2));
  await browser.close();
}
