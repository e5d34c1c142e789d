/**
 * Every selector and keystroke of the workbench that the visual tests use.
 *
 * Invariant: tests describe what a user sees; only this module knows how VS Code 1.139 draws it.
 */

import fs from "node:fs";
import path from "node:path";
import { runCommand } from "./driver.mjs";
import { expect } from "./expect.mjs";

/** Names of the pictures of the docs that this run takes anew (scripts/pictures.py). */
const pictures = new Set((process.env.FUSELIGHT_PICTURES ?? "").split(",").filter((name) => name !== ""));

/** The commands of VS Code that tests run, by their titles. */
const builtIn = {
  "Delete Line": "editor.action.deleteLines",
  "Extensions: Show Installed Extensions": "workbench.extensions.action.installedExtensions",
  "File: Revert File": "workbench.action.files.revert",
  "File: Save": "workbench.action.files.save",
  "Focus on Report View": "fuselight.report.focus",
  "Insert Line Below": "editor.action.insertLineAfter",
  "Notifications: Clear All Notifications": "notifications.clearAll",
  "Quick Fix...": "editor.action.quickFix",
  "Show or Focus Hover": "editor.action.showHover",
  "View: Close All Editors": "workbench.action.closeAllEditors",
  "View: Close Editor": "workbench.action.closeActiveEditor",
  "View: Focus Active Editor Group": "workbench.action.focusActiveEditorGroup",
  "View: Focus Problems": "workbench.action.problems.focus",
  "View: Hide Panel": "workbench.action.closePanel",
  "View: Show Explorer": "workbench.view.explorer",
  "View: Toggle Primary Side Bar Visibility": "workbench.action.toggleSidebarVisibility",
  "Workspaces: Manage Workspace Trust": "workbench.trust.manage",
};
/** Those of the extension, as the palette shows them. */
const own = Object.fromEntries(
  JSON.parse(
    fs.readFileSync(path.resolve(import.meta.dirname, "../../../package.json"), "utf8"),
  ).contributes.commands.map(({ category, title, command }) => [`${category}: ${title}`, command]),
);
const ids = { ...builtIn, ...own };

/** `driver`: the socket of the window's extension of this name. */
export function workbench(page, driver) {
  const run = (command, ...args) => runCommand(driver, command, ...args);
  const editor = page.locator(".editor-instance .monaco-editor").first();
  return {
    page,
    editor,
    lens: (text) => page.locator(".codelens-decoration", { hasText: text }),
    lensAction: (text) => page.locator(".codelens-decoration a", { hasText: text }),
    squiggles: page.locator(".squiggly-warning, .squiggly-info, .squiggly-error"),
    warnings: page.locator(".squiggly-warning"),
    /** A text that the editor shows within a line and the file does not have. */
    hint: (text) => editor.locator(".view-line span span", { hasText: text.replaceAll(" ", "\u00a0") }),
    hover: page.locator(".monaco-hover:visible"),
    problems: page.locator(".markers-panel-container .monaco-list-row"),
    problemsFilter: page.getByPlaceholder(/Filter \(e\.g\. text/),
    quickFixes: page.locator(".action-widget .monaco-list-row"),
    quickPick: page.locator(".quick-input-widget .monaco-list-row"),
    /** The status item, by its accessible label. */
    status: (text) => page.locator(".statusbar-item").getByRole("button", { name: text }),
    report: page.locator(".pane-body .monaco-list-row"),
    /** An editor group, from the left. */
    group: (index) => page.locator(".editor-group-container").nth(index),
    titleAction: (name) => page.locator(".editor-actions .action-label").and(page.getByLabel(name)),
    /** A line of the right side of a diff. */
    diff: page.locator(".monaco-diff-editor .editor.modified .view-line"),
    tab: (name) => page.locator(".tab", { hasText: name }),
    /** Lines that an extension has marked in a group. */
    marks: (index) =>
      page.locator(".editor-group-container").nth(index).locator('.view-overlays [class*="ced-"]'),
    /** Decorations of an extension next to line numbers. */
    gutterBars: page.locator('.glyph-margin-widgets [class*="ced-"], .margin-view-overlays [class*="ced-"]'),

    /** The window with the graphs of a target. */
    graphs: page.frameLocator("iframe.webview.ready").frameLocator("#active-frame"),
    /** A rendered Markdown file. */
    preview: page.frameLocator("iframe.webview.ready").frameLocator("#active-frame"),
    /** The page of a benchmark. */
    benchmark: page.frameLocator("iframe.webview.ready").frameLocator("#active-frame"),
    /** The status item that says where the cursor is. */
    cursorAt: (line) => page.locator("#status\\.editor\\.selection", { hasText: `Ln ${line},` }),

    /** A step of the walkthrough that counts as done. */
    ticked: (text) => page.locator('.getting-started-step[aria-checked="true"]', { hasText: text }),
    /** The page next to the open step of the walkthrough. */
    walkthrough: page.frameLocator("iframe.webview.ready").frameLocator("#active-frame"),

    /** Toasts do not appear in a headless page; the list at the bell has all messages, and hides after each answer. */
    async notified(text, milliseconds = 90_000) {
      const bell = page.locator("#status\\.notifications a");
      const list = page.locator(".notifications-center.visible");
      await expect(async () => {
        if (!(await list.isVisible())) {
          await bell.click();
          await page.mouse.move(700, 450); // otherwise the bell's tooltip covers the buttons
        }
        await expect(list.locator(".notification-list-item", { hasText: text })).toBeVisible({
          timeout: 1000,
        });
      }).toPass({ timeout: milliseconds });
    },
    /** The question of a run that the user has started. */
    dialog: (text) => page.locator(".monaco-dialog-box", { hasText: text }),
    /** Press the lens `action` until `text` is asked: a press during a redraw of the lenses hits none. */
    async pressUntilAsked(action, text) {
      await expect(async () => {
        if (!(await this.dialog(text).isVisible())) {
          await this.lensAction(action).first().click({ timeout: 10_000 });
        }
        await expect(this.dialog(text)).toBeVisible({ timeout: 15_000 });
      }).toPass({ timeout: 90_000 });
    },
    /** Answers the question of a run that the user has started. */
    async allow(button = "Run") {
      await page.getByRole("dialog").getByRole("button", { name: button, exact: true }).click();
    },
    /** Trusts the folder of the window. */
    async trust() {
      await this.command("Workspaces: Manage Workspace Trust");
      await page.getByRole("button", { name: "Trust", exact: true }).click();
      await expect(page.getByText("You trust this folder")).toBeVisible();
      await page.keyboard.press("Control+w");
    },
    /** Closes tabs and messages, and shows the explorer. */
    async putAway() {
      await page.keyboard.press("Escape"); // closes a menu or a dialog
      for (const title of [
        "View: Close All Editors",
        "Notifications: Clear All Notifications",
        "View: Show Explorer",
      ]) {
        await this.command(title);
      }
      await expect(page.locator(".tab")).toHaveCount(0);
      await expect(page.locator(".explorer-folders-view")).toBeVisible();
    },
    /** The explorer misses a file from before it watched the folder. */
    async refreshExplorer() {
      await run("workbench.files.action.refreshFilesExplorer");
    },
    /** Resolves when the window accepts keys. */
    async ready() {
      await page.locator(".monaco-workbench .statusbar-item").first().waitFor();
    },
    /** Loads the window again, with its tabs: the command saves them first, which the end of a page does not. */
    async reload() {
      await Promise.all([page.waitForEvent("load"), run("workbench.action.reloadWindow")]);
      await this.ready();
    },
    /**
     * Opens a list by a key and types `text`. A key is lost while the focus returns to the editor, and a list closes
     * when a page that was just opened takes the focus.
     */
    async openList(key, text) {
      const list = page.locator(".quick-input-widget");
      await expect(async () => {
        if (!(await list.isVisible())) {
          await page.keyboard.press(key);
        }
        await list.locator("input.input").fill(text, { timeout: 2000 });
      }).toPass({ timeout: 90_000 });
      return list;
    },
    /** Runs a command, by its title, until it is done. */
    async command(title) {
      await run(ids[title]);
    },
    /**
     * The same in the palette, for a command that opens a list or a dialog, which takes the place of the palette. While
     * it is open it lists no command that a starting window adds, so it is opened again.
     */
    async commandThatAsks(title) {
      const palette = page.locator(".quick-input-widget");
      await expect(async () => {
        await this.openList("F1", `>${title}`);
        const entry = palette.locator(".monaco-list-row", { hasText: title }).first();
        try {
          await entry.click({ timeout: 10_000 });
        } catch (error) {
          await page.keyboard.press("Escape");
          throw error;
        }
      }).toPass({ timeout: 90_000 });
    },
    /** The first entry with `text` of the list with this title. Until it is filled, it has the entries of the last list. */
    async choose(title, text) {
      const list = page.locator(".quick-input-widget", { hasText: title });
      await list.locator(".monaco-list-row", { hasText: text }).first().click();
      await list.waitFor({ state: "hidden" });
    },
    /** Opens a file of the explorer in the focused group. */
    async openFile(name) {
      if (name.includes("/")) {
        await this.openInFolder(name);
        return;
      }
      const entry = page.locator(".explorer-folders-view").getByRole("treeitem", { name });
      await expect(async () => {
        if (!(await entry.isVisible())) {
          await this.refreshExplorer();
        }
        await entry.dblclick({ timeout: 10_000 });
      }).toPass({ timeout: 90_000 });
      await page.locator(".tab.active", { hasText: name }).waitFor();
    },
    /** Opens a file of a folder, which the explorer shows closed, by its path. */
    async openInFolder(name) {
      const base = path.basename(name);
      await expect(async () => {
        const list = await this.openList("Control+p", name);
        await list.locator(".monaco-list-row", { hasText: base }).first().click({ timeout: 5000 });
        await page.locator(".tab.active", { hasText: base }).waitFor({ timeout: 5000 });
      }).toPass({ timeout: 90_000 });
    },
    /** Moves the cursor; the editor has the focus afterwards. */
    async goToLine(line) {
      await this.command("View: Focus Active Editor Group");
      await page.locator(".editor-instance .monaco-editor.focused").waitFor();
      await run("_moveTo", { position: { lineNumber: line, column: 1 } });
      await run("revealLine", { lineNumber: line - 1, at: "center" });
    },
    /** Accepts the suggestion of a save dialog; resolves to the file name. */
    async saveAsOffered(ending) {
      const input = page.locator(".quick-input-widget:visible input.input");
      await expect(input).toHaveValue(new RegExp(`/[^/]+\\.${ending}$`));
      const offered = await input.inputValue();
      await expect(async () => {
        await input.press("Enter", { timeout: 2000 }); // it accepts no answer while it reads the folder
        await expect(input).toHaveCount(0, { timeout: 2000 });
      }).toPass();
      await expect.poll(() => fs.existsSync(offered)).toBe(true);
      return offered;
    },
    /** Chooses a folder by its path in an open dialog, which accepts the folder that it lists. */
    async chooseFolder(folder) {
      const input = page.locator(".quick-input-widget:visible input.input");
      await expect(input).toHaveValue(/^\//);
      await expect(this.quickPick.nth(1)).toBeVisible(); // it replaces what is typed before it lists its first folder
      await expect(async () => {
        await input.fill(`${folder}/`);
        await expect(this.quickPick).toHaveCount(fs.readdirSync(folder).length + 1, { timeout: 5000 }); // and ".."
        await expect(input).toHaveValue(`${folder}/`, { timeout: 1000 });
      }).toPass();
      await expect(async () => {
        await input.press("Enter", { timeout: 2000 }); // it accepts no answer while it reads the folder
        await expect(input).toHaveCount(0, { timeout: 2000 });
      }).toPass();
    },
    /** Drops a folder on the view, as a file manager does: a drag of the mouse cannot begin outside of the page. */
    async dropOnReport(folder) {
      const view = page.locator(".pane", { hasText: "Report" }).locator(".pane-body");
      await view.evaluate(
        (body, uri) => {
          const { x, y, width, height } = body.getBoundingClientRect();
          const [clientX, clientY] = [x + width / 2, y + height / 2];
          const dataTransfer = new DataTransfer();
          dataTransfer.setData("text/uri-list", uri);
          for (const type of ["dragenter", "dragover", "drop"]) {
            const event = { bubbles: true, cancelable: true, composed: true, dataTransfer, clientX, clientY };
            document.elementFromPoint(clientX, clientY).dispatchEvent(new DragEvent(type, event));
          }
        },
        `vscode-remote://${new URL(page.url()).host}${folder}`,
      );
    },
    async sideBarWidth() {
      return (await page.locator(".part.sidebar").boundingBox()).width;
    },
    async widenSideBar(pixels) {
      const edge = await page.locator(".part.sidebar").boundingBox();
      await page.mouse.move(edge.x + edge.width, 300);
      await page.mouse.down();
      await page.mouse.move(edge.x + edge.width + pixels, 300, { steps: 4 });
      await page.mouse.up();
      await page.mouse.move(700, 450); // otherwise the edge stays highlighted
    },
    async save() {
      await this.command("File: Save");
    },
    async answer(text) {
      await page
        .locator(".notifications-center .monaco-button, .monaco-dialog-box .monaco-button", { hasText: text })
        .first()
        .click();
    },
    /** Replaces a picture of the docs, if this run takes it: to draw and compress one takes a fifth of a second. */
    async screenshot(name) {
      if (pictures.has(name)) {
        const folder = path.resolve(import.meta.dirname, "../../../docs/images");
        await page.screenshot({ path: path.join(folder, `${name}.png`), animations: "disabled" });
      }
    },
    /** Resolves to the text of the file on disk when it is as expected. */
    async onDisk(file, text) {
      await expect.poll(() => fs.readFileSync(file, "utf8")).toContain(text);
    },
  };
}
