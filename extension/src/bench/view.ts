/**
 * "Show the Benchmark": a page next to the source with the measurements of a target.
 *
 * Invariant: the server makes what is shown, and is asked again whenever it reports a change. Messages of the page are
 * checked before they are acted on.
 */

import * as vscode from "vscode";
import { askInDialog, textOf } from "../say";
import { createWebviewHost, goToSource, isSameTarget, type Page } from "../webview_host";
import { chooseExported, saveExported, savePicture } from "./export";
import type { BenchShown, BenchTarget, Exported, ExportFormat, MeasuredPage, Place } from "./messages";
import { benchShownIn, benchTitleOf, pageMessageIn, renamedUri } from "./target";

export interface BenchView extends vscode.Disposable {
  show(of: BenchTarget): Promise<void>;
  /** The results of `of` changed; without it, any may have. */
  changed(of?: BenchTarget): Promise<void>;
}

export interface BenchParts {
  readonly extension: vscode.Uri;
  /** Asks the server; null while it does not run. */
  readonly fetch: (of: BenchShown) => Promise<MeasuredPage | null>;
  readonly exported: (of: BenchShown, format: ExportFormat) => Promise<Exported | null>;
  readonly benchmark: (of: BenchTarget) => unknown;
  readonly cancel: (of: BenchTarget) => unknown;
  /** Removes a run from the history. */
  readonly forget: (of: BenchTarget, run: string) => unknown;
}

type BenchPage = Page<BenchShown, MeasuredPage>;

export function createBenchView(parts: BenchParts): BenchView {
  const host = createWebviewHost<BenchShown, MeasuredPage>(parts.extension, {
    viewType: "fuselight.benchmark",
    asset: "bench",
    preserveFocus: true,
    titleOf: benchTitleOf,
    restore: benchShownIn,
    async fetch(of) {
      try {
        return (await parts.fetch(of)) ?? emptyPage(of, "The Fuselight language server is not running yet.");
      } catch (error) {
        return emptyPage(of, `The Fuselight language server did not answer: ${textOf(error)}`);
      }
    },
    receive: (page, message) => receive(page, message),
  });

  async function receive(page: BenchPage, value: unknown): Promise<void> {
    const message = pageMessageIn(value);
    const target = { uri: page.shown.uri, target: page.shown.target };
    switch (message?.type) {
      case "open":
        return goTo(message.place, page.panel);
      case "benchmark":
        showNewest(page);
        await parts.benchmark(target);
        return page.draw();
      case "cancel":
        await parts.cancel(target);
        return;
      case "forget": {
        const text = "Remove this benchmark from the history?";
        if ((await askInDialog(text, "You cannot undo this.", "Remove")) === "Remove") {
          await parts.forget(target, message.run);
          showNewest(page);
          await page.draw();
        }
        return;
      }
      case "choose":
        page.shown = { ...page.shown, run: message.run, with: message.with };
        return page.draw();
      case "chooseFile": {
        const file = await chooseExported(page.shown);
        page.shown = { ...page.shown, with: file ?? page.shown.with };
        return page.draw(); // without a choice as well: the list then shows what is compared
      }
      case "export":
        return saveExported(page.shown, await parts.exported(page.shown, message.format));
      case "picture":
        return savePicture(page.shown, message);
    }
  }

  /** The server moves the history along with the file, and then reports a change. */
  const renames = vscode.workspace.onDidRenameFiles(({ files }) => {
    for (const page of host.pages) {
      for (const { oldUri, newUri } of files) {
        const uri = renamedUri(
          vscode.Uri.parse(page.shown.uri).toString(),
          oldUri.toString(),
          newUri.toString(),
        );
        if (uri !== null) {
          page.shown = { ...page.shown, uri };
          void page.draw();
        }
      }
    }
  });

  return {
    show: (of) => host.show({ ...of, run: null, with: null }, showNewest),
    changed: (of) => host.redraw(({ shown }) => of === undefined || isSameTarget(shown, of)),
    dispose() {
      renames.dispose();
      host.dispose();
    },
  };
}

/** The newest run, not one that the user chose earlier. */
function showNewest(page: BenchPage): void {
  page.shown = { ...page.shown, run: null };
}

function emptyPage({ uri, target, run }: BenchShown, message: string): MeasuredPage {
  const flags = { found: false, running: false, stale: false, partial: false };
  const lists = { when: "", work: "", inputs: [], verdict: [], machine: [], notes: [], configurations: [] };
  const of = { run, title: target || "__main__", message, target, path: "", uri };
  return { ...flags, ...of, ...lists, profiles: {}, history: [], comparison: null };
}

async function goTo({ uri, line }: Place, from: vscode.WebviewPanel): Promise<void> {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
  const start = document.lineAt(Math.min(line, document.lineCount - 1));
  const at = new vscode.Position(start.lineNumber, start.firstNonWhitespaceCharacterIndex);
  await goToSource(document.uri, new vscode.Range(at, at), from);
}
