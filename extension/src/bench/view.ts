/**
 * "Show the Benchmark": a page next to the source with the measurements of a target.
 *
 * Invariant: the server makes what is shown, and is asked again whenever it reports a change. Messages of the page are
 * checked before they are acted on.
 */

import * as vscode from "vscode";
import { linesAtCursor, targetAtCursor } from "../cursor";
import type { Lifecycle } from "../lifecycle";
import { measuredExportRequest, measuredRequest, serverCommand } from "../protocol";
import { askInDialog, inform, textOf } from "../say";
import { createWebviewHost, goToSource, isSameTarget, type Page } from "../webview_host";
import { chooseExported, saveExported, savePicture } from "./export";
import type { BenchShown, BenchTarget, MeasuredPage, Place } from "./messages";
import {
  benchShownIn,
  benchTargetIn,
  benchTitleOf,
  measuredAt,
  pageMessageIn,
  renamedUri,
  startedIn,
} from "./target";

type BenchPage = Page<BenchShown, MeasuredPage>;
export type BenchView = ReturnType<typeof createBenchView>;

export function createBenchView(extension: vscode.Uri, lifecycle: Lifecycle) {
  /** The target that was benchmarked last in this window. */
  let last: BenchTarget | undefined;
  const host = createWebviewHost<BenchShown, MeasuredPage>(extension, {
    viewType: "fuselight.benchmark",
    asset: "bench",
    preserveFocus: true,
    titleOf: benchTitleOf,
    restore: benchShownIn,
    async fetch(of) {
      try {
        const page = await lifecycle.request(measuredRequest, measuredAt(of));
        return page ?? emptyPage(of, "The Fuselight language server is not running yet.");
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
        await benchmark(target);
        return page.draw();
      case "cancel":
        return cancel(target);
      case "forget": {
        const text = "Remove this benchmark from the history?";
        if ((await askInDialog(text, "You cannot undo this.", "Remove")) === "Remove") {
          await vscode.commands.executeCommand(serverCommand.forgetBench, { ...target, run: message.run });
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
      case "export": {
        const what = { ...measuredAt(page.shown), format: message.format };
        return saveExported(page.shown, await lifecycle.request(measuredExportRequest, what));
      }
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

  const show = (of: BenchTarget) => host.show({ ...of, run: null, with: null }, showNewest);

  /** Starts the benchmark of a code lens or of the target at the cursor, which the server checks, and shows its page. */
  async function benchmark(argument: unknown): Promise<void> {
    const what = benchTargetIn(argument) ?? linesAtCursor();
    if (what === null) {
      void inform("Open a Python file, and place the cursor in the function or module to benchmark.");
      return;
    }
    const started = startedIn(await lifecycle.ask(serverCommand.bench, what));
    if (started === null) {
      return; // the user did not allow code of this folder to run
    }
    if (!started.started) {
      void inform(started.message);
    }
    if (started.target !== null) {
      last = { uri: what.uri, target: started.target };
      await show(last);
    }
  }

  /** Without a target, cancels all benchmarks. */
  async function cancel(argument: unknown): Promise<void> {
    await lifecycle.ask(serverCommand.cancelBench, benchTargetIn(argument) ?? {});
  }

  return {
    benchmark,
    cancel,
    async show(argument: unknown): Promise<void> {
      const of = benchTargetIn(argument) ?? benchTargetIn(await targetAtCursor(lifecycle)) ?? last;
      if (of === undefined) {
        void inform("Place the cursor in a function or module that can be benchmarked.");
      } else {
        await show(of);
      }
    },
    /** The results of `of` changed; without it, any may have. */
    changed: (of?: BenchTarget) => host.redraw(({ shown }) => of === undefined || isSameTarget(shown, of)),
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
