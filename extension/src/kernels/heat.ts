/**
 * Marks lines by their share of the time, with a bar in the gutter and a mark in the overview ruler.
 *
 * Invariant: the server chooses the lines. Levels differ in the length of the bar, not by color alone.
 */

import * as path from "node:path";
import * as vscode from "vscode";
import type { KernelLine } from "../protocol";

export type FetchHeat = (uri: vscode.Uri) => Promise<readonly KernelLine[]>;

export interface KernelHeat extends vscode.Disposable {
  /** The kernels of a file changed; without `uri`, any may have. */
  changed(uri?: string): Promise<void>;
  /** The marked lines of a file, for tests. */
  marks(uri: vscode.Uri): readonly KernelLine[];
}

const levels = [1, 2, 3];

export function createKernelHeat(fetchHeat: FetchHeat, context: vscode.ExtensionContext): KernelHeat {
  const icon = (level: number) =>
    vscode.Uri.file(context.asAbsolutePath(path.join("extension", "media", `heat-${level}.svg`)));
  const ruler = {
    overviewRulerColor: new vscode.ThemeColor("charts.orange"),
    overviewRulerLane: vscode.OverviewRulerLane.Right,
  };
  const kinds = {
    gutter: levels.map((level) =>
      vscode.window.createTextEditorDecorationType({
        ...ruler,
        gutterIconPath: icon(level),
        gutterIconSize: "contain",
      }),
    ),
    ruler: levels.map(() => vscode.window.createTextEditorDecorationType(ruler)),
  };
  const shown = new Map<string, readonly KernelLine[]>();

  async function draw(editor: vscode.TextEditor): Promise<void> {
    const { uri, languageId } = editor.document;
    if (languageId !== "python" || uri.scheme !== "file") {
      return;
    }
    const how = vscode.workspace.getConfiguration("fuselight", uri).get<unknown>("kernels.heat");
    const lines = how === "off" ? [] : await fetchHeat(uri);
    for (const [kind, types] of Object.entries(kinds)) {
      for (const [index, type] of types.entries()) {
        const here = lines.filter(({ level }) => kind === how && level === index + 1);
        editor.setDecorations(
          type,
          here.map(({ line }) => new vscode.Range(line, 0, line, 0)),
        );
      }
    }
    shown.set(uri.toString(), lines);
  }

  async function changed(uri?: string): Promise<void> {
    const source = uri === undefined ? null : vscode.Uri.parse(uri).toString();
    const editors = vscode.window.visibleTextEditors.filter(
      ({ document }) => source === null || document.uri.toString() === source,
    );
    await Promise.all(editors.map(draw));
  }

  const subscriptions = [
    ...kinds.gutter,
    ...kinds.ruler,
    vscode.window.onDidChangeVisibleTextEditors((editors) => Promise.all(editors.map(draw))),
    vscode.workspace.onDidCloseTextDocument(({ uri }) => shown.delete(uri.toString())),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("fuselight.kernels.heat")) {
        void changed();
      }
    }),
  ];
  return {
    changed,
    marks: (uri) => shown.get(uri.toString()) ?? [],
    dispose() {
      for (const one of subscriptions) {
        one.dispose();
      }
    },
  };
}
