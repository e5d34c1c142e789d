/**
 * "Show Graphs": a window beside the source with the picture of a target's graphs.
 *
 * Invariant: the server makes what is shown; it is asked again when the report changes, and when lines have moved. The
 * window loads nothing but its own script and style sheet, and what it is sent is drawn as text.
 */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { DrawMessage, GraphPicture, GraphTarget, LineRange, ViewMessage } from "./graph_messages";
import { targetIn, titleOf } from "./graph_target";

/** Asks the server; null while there is none. */
export type FetchGraphs = (of: GraphTarget) => Promise<GraphPicture | null>;

export interface GraphView extends vscode.Disposable {
  show(of: GraphTarget): Promise<void>;
  /** Which targets of a file have a report. */
  offered(uri: vscode.Uri): Promise<GraphPicture["targets"]>;
  /** The report of `uri` is another one now; without `uri`, any may be. */
  changed(uri?: string): Promise<void>;
}

export interface GraphParts {
  readonly extension: vscode.Uri;
  readonly fetch: FetchGraphs;
  readonly toRange: (range: LineRange) => vscode.Range | null;
  readonly run: (of: GraphTarget) => unknown;
}

interface Shown {
  readonly panel: vscode.WebviewPanel;
  of: GraphTarget;
  drawn: DrawMessage | null;
}

export const graphViewType = "fuselight.graphs";
const settle = 300;
const noServer: GraphPicture = {
  found: false,
  title: "a target",
  description: "",
  message: "The Fuselight language server is not running yet: the picture is drawn when it does.",
  boxes: [],
  arrows: [],
  targets: [],
};

export function createGraphView({ extension, fetch, toRange, run }: GraphParts): GraphView {
  const open = new Set<Shown>();
  const folders = ["dist", "media"].map((name) => vscode.Uri.joinPath(extension, "extension", name));
  const options: vscode.WebviewOptions = { enableScripts: true, localResourceRoots: folders };
  let timer: NodeJS.Timeout | undefined;

  async function draw(one: Shown): Promise<void> {
    const { of } = one;
    const picture = (await fetch(of)) ?? noServer;
    if (one.of !== of || !open.has(one)) {
      return; // another target was chosen meanwhile, or the window closed
    }
    one.panel.title = titleOf(of);
    one.drawn = { type: "draw", of, picture };
    await one.panel.webview.postMessage(one.drawn);
  }

  function adopt(panel: vscode.WebviewPanel, of: GraphTarget): void {
    const one: Shown = { panel, of, drawn: null };
    open.add(one);
    panel.onDidDispose(() => open.delete(one));
    panel.webview.onDidReceiveMessage((message: ViewMessage) => answer(one, message));
    panel.webview.options = options;
    panel.webview.html = page(panel.webview, extension);
  }

  async function answer(one: Shown, message: ViewMessage): Promise<void> {
    switch (message.type) {
      case "ready":
        return draw(one);
      case "choose":
        one.of = { uri: message.target.uri, target: message.target.target };
        return draw(one);
      case "run":
        await run(one.of);
        return;
      case "open":
        return goTo(vscode.Uri.parse(message.uri), toRange(message.range), one.panel);
    }
  }

  async function drawAll(wanted: (one: Shown) => boolean): Promise<void> {
    // A window that is hidden is empty; it asks when it is seen again.
    await Promise.all([...open].filter((one) => one.panel.visible && wanted(one)).map(draw));
  }

  const listeners = [
    vscode.window.registerWebviewPanelSerializer(graphViewType, {
      deserializeWebviewPanel(panel, state: unknown) {
        const of = targetIn(state);
        if (of === null) {
          panel.dispose();
        } else {
          adopt(panel, of);
        }
        return Promise.resolve();
      },
    }),
    vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      const edited = document.uri.toString();
      const speaksOf = ({ of, drawn }: Shown) =>
        same(of.uri, edited) || drawn?.picture.boxes.some(({ uri }) => uri === edited) === true;
      if (contentChanges.length > 0 && [...open].some(speaksOf)) {
        clearTimeout(timer); // the server knows where the lines are now; it is asked when the typing stops
        timer = setTimeout(() => void drawAll(speaksOf), settle);
      }
    }),
  ];

  return {
    async show(of) {
      const there = [...open].find((one) => same(one.of.uri, of.uri) && one.of.target === of.target);
      if (there !== undefined) {
        there.panel.reveal();
        await draw(there);
        return;
      }
      const panel = vscode.window.createWebviewPanel(graphViewType, titleOf(of), vscode.ViewColumn.Beside, {
        ...options,
        enableFindWidget: true,
      });
      adopt(panel, of);
    },
    offered: async (uri) => (await fetch({ uri: uri.toString(), target: null }))?.targets ?? [],
    changed: (uri) => drawAll(({ of }) => uri === undefined || same(of.uri, uri)),
    dispose() {
      clearTimeout(timer);
      for (const one of [...listeners, ...[...open].map(({ panel }) => panel)]) {
        one.dispose();
      }
    },
  };
}

function same(left: string, right: string): boolean {
  return vscode.Uri.parse(left).toString() === vscode.Uri.parse(right).toString();
}

/** To a line in the group where its file is shown, or beside the picture. */
async function goTo(
  uri: vscode.Uri,
  selection: vscode.Range | null,
  from: vscode.WebviewPanel,
): Promise<void> {
  const editor = vscode.window.visibleTextEditors.find(
    ({ document }) => document.uri.toString() === uri.toString(),
  );
  const first = from.viewColumn === vscode.ViewColumn.One ? vscode.ViewColumn.Beside : vscode.ViewColumn.One;
  const viewColumn = editor?.viewColumn ?? first;
  await vscode.window.showTextDocument(uri, { viewColumn, ...(selection ? { selection } : {}) });
}

function page(webview: vscode.Webview, extension: vscode.Uri): string {
  const nonce = randomBytes(16).toString("base64url");
  const at = (...parts: string[]) =>
    webview.asWebviewUri(vscode.Uri.joinPath(extension, "extension", ...parts));
  const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="UTF-8">
    <meta http-equiv="Content-Security-Policy" content="${policy}">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="stylesheet" href="${at("media", "graphs.css")}">
    <title>Graphs</title>
  </head>
  <body>
    <script nonce="${nonce}" src="${at("dist", "graphs.js")}"></script>
  </body>
</html>`;
}
