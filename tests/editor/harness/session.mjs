/**
 * The editor of the visual tests: the packaged extension in one window, which the tests of a process share.
 *
 * The window starts on a folder that is not trusted, which the first test that needs trust gives it.
 *
 * Invariant: a test starts without files, tabs, messages, settings and answers of the test before it. A failure keeps a
 * screenshot and the server's log in `artifacts/editor`, and the next test gets a new editor (a new process).
 */

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test as base } from "@playwright/test";
import { install, startCodeServer, tools } from "./code_server.mjs";
import { expect } from "./expect.mjs";
import { stillContext } from "./still.mjs";
import { workbench } from "./workbench.mjs";

export const root = path.resolve(import.meta.dirname, "../../..");

/** A link in the workspace, by which Fuselight finds the Python with torch. */
const environment = ".venv";
const viewport = { width: 1400, height: 900 };
/** Each setting belongs to one test and does not affect the others, so that a start needs no wait for a change. */
const settings = {
  "fuselight.bench.device": "cpu",
  "fuselight.tune.device": "cpu",
  "fuselight.tune.budget": process.env.FUSELIGHT_PICTURES ? 240 : 15,
  "fuselight.devices": { "lab card": { like: "h100", memoryGb: 94 } },
  // The README's picture shows a benchmark of the usual duration.
  ...(process.env.FUSELIGHT_PICTURES ? {} : { "fuselight.bench.seconds": 0.2, "fuselight.bench.rounds": 3 }),
};

export const test = base.extend({
  /** The folder of extensions of all editors of a process; the package is installed there once. */
  extensions: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads which fixtures it needs out of the pattern
    async ({}, use) => {
      const beside = ["driver", "jupyter_stub"].map((name) => path.join(import.meta.dirname, name));
      const installed = install(path.join(root, "fuselight.vsix"), beside);
      await use(installed);
      fs.rmSync(installed, { recursive: true, force: true });
    },
    { scope: "worker" },
  ],
  /** The window that the tests share, on a folder with nothing but the environment. */
  shared: [
    async ({ browser, extensions }, use) => {
      const editor = await startEditor(browser, extensions);
      await use(editor);
      await editor.stop();
    },
    { scope: "worker" },
  ],
  /** `session({ files })` opens the first of `files` in the shared window, in a folder with all of them. */
  session: async ({ shared }, use, info) => {
    await use(async ({ files }) => {
      await reset(shared);
      if (!shared.isTrusted) {
        await shared.view.trust();
        shared.isTrusted = true;
      }
      const begun = await begin(shared, files);
      await shared.view.command("Fuselight: Ask Again Before Running Code in This Folder");
      return begun;
    });
    await keepFailure(info, shared);
  },
  /** The same on a folder that is not trusted, which the test trusts: in a new window if another test was first. */
  stranger: async ({ browser, extensions, shared }, use, info) => {
    const editor = shared.isTrusted ? await startEditor(browser, extensions) : shared;
    await use(({ files }) => begin(editor, files));
    await keepFailure(info, editor);
    if (editor === shared) {
      shared.isTrusted = true;
    } else {
      await editor.stop();
    }
  },
});

async function startEditor(browser, extensions) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "fuselight-workspace-"));
  fs.symlinkSync(path.dirname(path.dirname(tools.python)), path.join(folder, environment));
  const server = await startCodeServer({ extensions, settings, trusted: false });
  const context = await stillContext(browser, viewport);
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.goto(server.at(folder));
  const view = workbench(page, server.driver);
  await view.ready();
  const sideBarWidth = await view.sideBarWidth();
  return {
    isTrusted: false,
    sideBarWidth,
    folder,
    page,
    server,
    view,
    async stop() {
      await context.close();
      await server.stop();
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Resets everything that a test can leave: a picture must not depend on the tests before it. */
async function reset({ folder, page, sideBarWidth, view }) {
  await view.putAway();
  const added = (await view.sideBarWidth()) - sideBarWidth;
  if (added !== 0) {
    await view.widenSideBar(-added);
  }
  // A server that ends a run writes its results again. The explorer notices late: it would open a file of the test before
  // in place of one with the same name.
  const entries = page.locator(".explorer-folders-view .monaco-list-row");
  await expect(async () => {
    const left = fs.readdirSync(folder).filter((name) => name !== environment);
    for (const name of left) {
      fs.rmSync(path.join(folder, name), { recursive: true, force: true });
    }
    if ((await entries.count()) > 1) {
      await view.refreshExplorer();
    }
    expect(left).toEqual([]);
    expect(await entries.count()).toBeLessThanOrEqual(1);
  }).toPass({ timeout: 90_000 });
}

async function begin({ folder, page, view }, files) {
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  }
  const [first] = Object.keys(files);
  await view.openFile(first);
  await view.status(/Fuselight, /).waitFor(); // its commands are in no list before it is there
  /**
   * Writes the settings of the folder, and again until `seen` passes: VS Code can miss the first write of others to a
   * file in a folder that was just made.
   */
  const configure = (values, seen) =>
    expect(async () => {
      fs.mkdirSync(path.join(folder, ".vscode"), { recursive: true });
      fs.writeFileSync(path.join(folder, ".vscode", "settings.json"), JSON.stringify(values, null, 2));
      await seen({ timeout: 10_000 });
    }).toPass({ timeout: 90_000 });
  return { view, page, folder, file: path.join(folder, first), configure };
}

async function keepFailure(info, { page, server }) {
  if (info.errors.length === 0) {
    return;
  }
  const name = info.titlePath
    .slice(1)
    .join(" ")
    .replace(/[^a-z0-9]+/gi, "-");
  const target = path.join(tools.artifacts, "failures", name);
  fs.mkdirSync(target, { recursive: true });
  await page.screenshot({ path: path.join(target, "page.png") });
  fs.writeFileSync(path.join(target, "server.log"), server.log());
  fs.cpSync(path.join(server.home, "user-data/logs"), path.join(target, "logs"), {
    recursive: true,
    force: true,
  });
}
