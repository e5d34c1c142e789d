/**
 * "Show Graphs": a page next to the source with the graphs of a target.
 *
 * Invariant: the server makes the picture. It is asked again when the report changes and when an edit moves lines.
 * Messages of the page are checked before they are acted on.
 */

import * as vscode from "vscode";
import { targetAtCursor } from "../cursor/cursor";
import { sourceOf } from "../cursor/source";
import type { GraphTarget } from "../messages/graphs";
import type { GraphPicture, OfferedTarget } from "../messages/page_types";
import { graphsRequest, serverCommand } from "../messages/protocol";
import type { ReportView } from "../report/view";
import type { Lifecycle } from "../server/lifecycle";
import { createWebviewHost, goToSource, isSameFile, type Page } from "../webviews/host";
import { inform, noAnswer } from "../workbench/say";
import { amongOffered, targetIn, titleOf, viewMessageIn } from "./target";

const editPauseMilliseconds = 300;
const noServer: GraphPicture = {
  found: false,
  title: "a target",
  description: "",
  message: "The Fuselight language server is not running yet. The graphs appear when it starts.",
  boxes: [],
  arrows: [],
  targets: [],
};

export type GraphView = ReturnType<typeof createGraphView>;

export function createGraphView(extension: vscode.Uri, lifecycle: Lifecycle, report: ReportView) {
  let timer: NodeJS.Timeout | undefined;
  const host = createWebviewHost<GraphTarget, GraphPicture>(extension, {
    viewType: "fuselight.graphs",
    asset: "graphs",
    preserveFocus: false,
    titleOf,
    restore: targetIn,
    async fetch(of) {
      try {
        return (await lifecycle.request(graphsRequest, of)) ?? noServer;
      } catch (error) {
        return { ...noServer, message: noAnswer(error) };
      }
    },
    async receive(page, value) {
      const message = viewMessageIn(value);
      switch (message?.type) {
        case "choose":
          page.shown = message.target;
          return page.draw();
        case "run": {
          const { uri, target } = page.shown;
          const of = { uri, target: target === "" ? "__main__" : target };
          await vscode.commands.executeCommand(serverCommand.run, of);
          return;
        }
        case "open":
          return goToSource(vscode.Uri.parse(message.uri), lifecycle.toRange(message.range), page.panel);
      }
    },
  });

  const edits = vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
    const edited = document.uri.toString();
    const refersToEdited = ({ shown, content }: Page<GraphTarget, GraphPicture>) =>
      isSameFile(shown.uri, edited) || content?.boxes.some(({ uri }) => uri === edited) === true;
    if (contentChanges.length > 0 && [...host.pages].some(refersToEdited)) {
      clearTimeout(timer);
      timer = setTimeout(() => void host.redraw(refersToEdited), editPauseMilliseconds);
    }
  });

  return {
    /** Shows a node of the report, an argument, or the target at the cursor; else the user chooses. */
    async show(argument: unknown): Promise<void> {
      const named = report.targetOf(argument) ?? targetIn(argument);
      if (named !== null && named.target !== null) {
        await host.show(named);
        return;
      }
      const document = vscode.window.activeTextEditor?.document;
      const source = document?.languageId === "python" ? sourceOf(document.uri) : report.shown();
      if (source === undefined) {
        void inform("Open a Python file to show the graphs of its targets.");
        return;
      }
      const uri = source.toString();
      const target = (await targetAtCursor(lifecycle))?.target ?? null;
      const offered = (await lifecycle.request(graphsRequest, { uri, target: null }))?.targets ?? [];
      const chosen = amongOffered(offered, target) ?? (await chooseTarget(offered));
      if (chosen !== undefined) {
        await host.show(chosen ?? { uri, target });
      }
    },
    /** The report of `uri` changed; without `uri`, any may have. */
    changed: (uri?: string) => host.redraw(({ shown }) => uri === undefined || isSameFile(shown.uri, uri)),
    dispose() {
      clearTimeout(timer);
      edits.dispose();
      host.dispose();
    },
  };
}

/** Null without targets to choose from; undefined when the user chose none. */
async function chooseTarget(offered: readonly OfferedTarget[]): Promise<OfferedTarget | null | undefined> {
  const title = "Show the graphs of which target?";
  const entries = offered.map((target) => ({ label: target.label, target }));
  return offered.length === 0 ? null : (await vscode.window.showQuickPick(entries, { title }))?.target;
}
