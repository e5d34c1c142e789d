/**
 * "Show Graphs": a page next to the source with the graphs of a target.
 *
 * Invariant: the server makes the picture. It is asked again when the report changes and when an edit moves lines.
 */

import * as vscode from "vscode";
import { createWebviewHost, goToSource, isSameFile, type Page } from "../webview_host";
import type { GraphPicture, GraphTarget, LineRange, ViewMessage } from "./messages";
import { targetIn, titleOf } from "./target";

export interface GraphView extends vscode.Disposable {
  show(of: GraphTarget): Promise<void>;
  /** The targets of a file that have a report. */
  offered(uri: vscode.Uri): Promise<GraphPicture["targets"]>;
  /** The report of `uri` changed; without `uri`, any may have. */
  changed(uri?: string): Promise<void>;
}

export interface GraphParts {
  readonly extension: vscode.Uri;
  /** Asks the server; null while it does not run. */
  readonly fetch: (of: GraphTarget) => Promise<GraphPicture | null>;
  readonly toRange: (range: LineRange) => vscode.Range | null;
  readonly run: (of: GraphTarget) => unknown;
}

type GraphPage = Page<GraphTarget, GraphPicture>;

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

export function createGraphView({ extension, fetch, toRange, run }: GraphParts): GraphView {
  let timer: NodeJS.Timeout | undefined;
  const host = createWebviewHost<GraphTarget, GraphPicture>(extension, {
    viewType: "fuselight.graphs",
    asset: "graphs",
    preserveFocus: false,
    titleOf,
    restore: targetIn,
    fetch: async (of) => (await fetch(of)) ?? noServer,
    async receive(page, value) {
      const message = value as ViewMessage;
      switch (message.type) {
        case "choose":
          page.shown = { uri: message.target.uri, target: message.target.target };
          return page.draw();
        case "run":
          await run(page.shown);
          return;
        case "open":
          return goToSource(vscode.Uri.parse(message.uri), toRange(message.range), page.panel);
      }
    },
  });

  const edits = vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
    const edited = document.uri.toString();
    const refersToEdited = ({ shown, content }: GraphPage) =>
      isSameFile(shown.uri, edited) || content?.boxes.some(({ uri }) => uri === edited) === true;
    if (contentChanges.length > 0 && [...host.pages].some(refersToEdited)) {
      clearTimeout(timer);
      timer = setTimeout(() => void host.redraw(refersToEdited), editPauseMilliseconds);
    }
  });

  return {
    show: (of) => host.show(of),
    offered: async (uri) => (await fetch({ uri: uri.toString(), target: null }))?.targets ?? [],
    changed: (uri) => host.redraw(({ shown }) => uri === undefined || isSameFile(shown.uri, uri)),
    dispose() {
      clearTimeout(timer);
      edits.dispose();
      host.dispose();
    },
  };
}
