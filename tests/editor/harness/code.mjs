#!/usr/bin/env node
/**
 * Replaces the VS Code executable, so that @vscode/test-cli runs mocha in code-server's extension host: it takes the
 * arguments of the desktop editor, opens the page that starts that host, and exits with the code of the tests.
 */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import util from "node:util";
import { chromium } from "playwright-core";
import { startCodeServer, tools } from "./code_server.mjs";
import { stillContext } from "./still.mjs";

/** The limit of one suite on a busy machine; an idle one needs a minute. */
const deadline = 600_000;
/** Messages of the workbench about an absent gallery and account. */
const noise =
  /127\.0\.0\.1:9|connection token|Creating a socket|reconnection-grace|builtin extensions cache|Service Worker|AgentHost|AccountPolicyGate|^Canceled|workbench\.js:\d+/;

const given = process.argv.slice(2);
const option = (name) =>
  given.filter((one) => one.startsWith(`--${name}=`)).map((one) => one.slice(name.length + 3));
if (given.includes("--version")) {
  console.log("1.139.1");
  process.exit(0);
}
const workspace = copied(path.resolve(given.find((one) => !one.startsWith("-")) ?? "."));
const beside = (process.env.FUSELIGHT_BESIDE ?? "").split(path.delimiter).filter((one) => one !== "");
const server = await startCodeServer({ beside, trusted: !process.env.FUSELIGHT_UNTRUSTED });
let code = 1;
const browser = await chromium.launch({
  executablePath: tools.browser,
  args: [...tools.browserFlags, "--disable-gpu"],
});
try {
  const context = await stillContext(browser, { width: 800, height: 600 });
  const page = await context.newPage();
  let ended;
  const exit = new Promise((done) => {
    ended = done;
  });
  await page.exposeFunction("codeAutomationExit", (status) => ended(status));
  await page.exposeFunction("codeAutomationLog", (_, parts) => {
    const text = util.format(...parts);
    if (!noise.test(text)) {
      console.log(text);
    }
  });
  const passed = Object.entries(process.env).filter(([name]) =>
    /^(FUSELIGHT_|VSCODE_TEST_|MOCHA_)/.test(name),
  );
  const payload = [
    ...option("extensionDevelopmentPath").map((one) => ["extensionDevelopmentPath", server.remote(one)]),
    ["extensionTestsPath", server.remote(option("extensionTestsPath")[0])],
    ["extensionEnvironment", JSON.stringify(Object.fromEntries(passed))],
    ["skipWelcome", "true"],
  ];
  await page.goto(server.at(workspace.path, payload));
  const late = new Promise((done) => setTimeout(() => done(124), deadline).unref());
  code = await Promise.race([exit, late]);
} finally {
  await browser.close();
  await server.stop();
  fs.rmSync(workspace.home, { recursive: true, force: true });
}
process.exit(code);

/** Tests edit files, so they work on a copy of the folder, or of the folder of a `.code-workspace` file. */
function copied(what) {
  const isFile = fs.statSync(what).isFile();
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-workspace-"));
  fs.cpSync(isFile ? path.dirname(what) : what, home, { recursive: true });
  return { home, path: isFile ? path.join(home, path.basename(what)) : home };
}
