/**
 * Marks lines by their share of the time, with a bar in the gutter and a mark in the overview ruler.
 *
 * Invariant: the server chooses the lines. Levels differ in the length of the bar, not by color alone.
 */

import * as path from "node:path";
import * as vscode from "vscode";
import { kernelLinesRequest } from "../messages/protocol";
import type { KernelLine } from "../messages/server_types";
import type { Lifecycle } from "../server/lifecycle";

const levels = [1, 2, 3];

export type KernelHeat = ReturnType<typeof createKernelHeat>;

export function createKernelHeat(lifecycle: Lifecycle, context: vscode.ExtensionContext) {
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
  /** The last drawing of each editor: an answer of an earlier one is out of date. */
  const drawings = new WeakMap<vscode.TextEditor, number>();
  let drawing = 0;

  async function draw(editor: vscode.TextEditor): Promise<void> {
    const { uri, languageId } = editor.document;
    if (languageId !== "python" || uri.scheme !== "file") {
      return;
    }
    const mine = ++drawing;
    drawings.set(editor, mine);
    const how = vscode.workspace.getConfiguration("fuselight", uri).get<unknown>("kernels.heat");
    const answer =
      how === "off" ? null : await lifecycle.request(kernelLinesRequest, { uri: uri.toString() });
    if (drawings.get(editor) !== mine) {
      return;
    }
    const lines = answer?.lines ?? [];
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

  /** The kernels of a file changed; without `uri`, any may have. */
  async function changed(uri?: string): Promise<void> {
    const source = uri === undefined ? null : vscode.Uri.parse(uri).toString();
    const editors = vscode.window.visibleTextEditors.filter(
      ({ document }) => source === null || document.uri.toString() === source,
    );
    await Promise.all(editors.map(draw));
  }

  const subscriptions = vscode.Disposable.from(
    ...kinds.gutter,
    ...kinds.ruler,
    vscode.window.onDidChangeVisibleTextEditors((editors) => Promise.all(editors.map(draw))),
    vscode.workspace.onDidCloseTextDocument(({ uri }) => shown.delete(uri.toString())),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("fuselight.kernels.heat")) {
        void changed();
      }
    }),
  );
  return {
    changed,
    /** The marked lines of a file, for tests. */
    marks: (uri: vscode.Uri) => shown.get(uri.toString()) ?? [],
    dispose: () => subscriptions.dispose(),
  };
}
