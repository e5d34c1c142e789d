/**
 * "Tune": a page next to the source with the search for the fastest configuration of a target.
 *
 * Invariant: the server makes what is shown, and is asked again whenever it reports a change. What is copied or opened
 * comes from the server, never from the page.
 */

import * as vscode from "vscode";
import type { BenchTarget } from "../bench/messages";
import { benchTargetIn, renamedUri, startedIn } from "../bench/target";
import { linesAtCursor, targetAtCursor } from "../cursor";
import type { Lifecycle } from "../lifecycle";
import { serverCommand, tunedRequest } from "../protocol";
import { inform, textOf } from "../say";
import { createWebviewHost, isSameTarget, type Page } from "../webview_host";
import type { TunedPage } from "./messages";
import { tuneMessageIn, tuningTitleOf } from "./target";

type TuningPage = Page<BenchTarget, TunedPage>;
export type TuneView = ReturnType<typeof createTuneView>;

export function createTuneView(extension: vscode.Uri, lifecycle: Lifecycle) {
  /** The target that was tuned last in this window. */
  let last: BenchTarget | undefined;
  const host = createWebviewHost<BenchTarget, TunedPage>(extension, {
    viewType: "fuselight.tuning",
    asset: "tune",
    style: "bench",
    preserveFocus: true,
    titleOf: tuningTitleOf,
    restore: benchTargetIn,
    async fetch(of) {
      try {
        const page = await lifecycle.request(tunedRequest, of);
        return page ?? emptyPage(of, "The Fuselight language server is not running yet.");
      } catch (error) {
        return emptyPage(of, `The Fuselight language server did not answer: ${textOf(error)}`);
      }
    },
    receive: (page, message) => receive(page, message),
  });

  async function receive(page: TuningPage, value: unknown): Promise<void> {
    const { uri, target } = page.shown;
    const { result = null, file = "" } = page.content ?? {};
    switch (tuneMessageIn(value)?.type) {
      case "tune":
        await tune({ uri, target });
        return page.draw();
      case "cancel":
        return cancel({ uri, target });
      case "copy":
        if (result !== null) {
          await vscode.env.clipboard.writeText(result.code);
          vscode.window.setStatusBarMessage("Fuselight: copied the call of torch.compile", 4000);
        }
        return;
      case "openFile":
        if (file !== "") {
          await vscode.commands.executeCommand("vscode.open", vscode.Uri.parse(file), {
            viewColumn: vscode.ViewColumn.One,
          });
        }
        return;
      case "applyFixes":
        await lifecycle.ask(serverCommand.applyAllFixes, { uri });
    }
  }

  const renames = vscode.workspace.onDidRenameFiles(({ files }) => {
    for (const page of host.pages) {
      for (const { oldUri, newUri } of files) {
        const now = vscode.Uri.parse(page.shown.uri).toString();
        const uri = renamedUri(now, oldUri.toString(), newUri.toString());
        if (uri !== null) {
          page.shown = { ...page.shown, uri };
          void page.draw();
        }
      }
    }
  });

  /** Starts the search of a code lens or of the target at the cursor, which the server checks, and shows its page. */
  async function tune(argument: unknown): Promise<void> {
    const what = benchTargetIn(argument) ?? linesAtCursor();
    if (what === null) {
      void inform("Open a Python file, and place the cursor in the function or module to tune.");
      return;
    }
    const started = startedIn(await lifecycle.ask(serverCommand.tune, what));
    if (started === null) {
      return; // the user did not allow code of this folder to run
    }
    if (!started.started) {
      void inform(started.message);
    }
    if (started.target !== null) {
      last = { uri: what.uri, target: started.target };
      await host.show(last);
    }
  }

  /** Without a target, cancels all searches. */
  async function cancel(argument: unknown): Promise<void> {
    await lifecycle.ask(serverCommand.cancelTune, benchTargetIn(argument) ?? {});
  }

  return {
    tune,
    cancel,
    async show(argument: unknown): Promise<void> {
      const of = benchTargetIn(argument) ?? benchTargetIn(await targetAtCursor(lifecycle)) ?? last;
      if (of === undefined) {
        void inform("Place the cursor in a function or module that can be tuned.");
      } else {
        await host.show({ uri: of.uri, target: of.target });
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

function emptyPage({ uri, target }: BenchTarget, message: string): TunedPage {
  const flags = { found: false, running: false, stale: false, partial: false };
  const texts = { file: "", file_shown: "", file_problem: "", when: "", work: "", numerics: "", path: "" };
  const numbers = { seconds: 0, budget_seconds: 0, modes_seconds: 0 };
  const lists = {
    inputs: [],
    statements: [],
    machine: [],
    notes: [],
    comparison: [],
    knobs: [],
    candidates: [],
    race: [],
  };
  return {
    ...flags,
    ...texts,
    ...numbers,
    ...lists,
    title: target || "__main__",
    message,
    target,
    uri,
    result: null,
  };
}
