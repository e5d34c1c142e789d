/**
 * Linked cursors: marks the lines of a source that belong to the cursor's line in a generated text, and the reverse.
 *
 * Invariant: only editors without the cursor have marks, and their selection does not change. A mark has a border and a
 * position in the overview ruler besides its color.
 */

import * as vscode from "vscode";
import { type KernelDocuments, linkName } from "./documents";
import { generatedLines, type LineRange, sourceLines } from "./lines";
import { kernelScheme } from "./uri";

/** The marked lines of one editor, for tests. */
export interface Marked {
  readonly uri: string;
  readonly lines: readonly LineRange[];
}

/** Longer ranges get only the border, so that a fully marked text stays readable. */
const mostFilled = 8;

export type KernelMarks = ReturnType<typeof createKernelMarks>;

export function createKernelMarks(documents: KernelDocuments) {
  const border = {
    isWholeLine: true,
    borderColor: new vscode.ThemeColor("focusBorder"),
    borderStyle: "solid",
    borderWidth: "0 0 0 3px",
    overviewRulerColor: new vscode.ThemeColor("focusBorder"),
    overviewRulerLane: vscode.OverviewRulerLane.Center,
  };
  const filled = vscode.window.createTextEditorDecorationType({
    ...border,
    backgroundColor: new vscode.ThemeColor("editor.selectionHighlightBackground"),
  });
  const outlined = vscode.window.createTextEditorDecorationType(border);
  let shown: readonly Marked[] = [];
  let visible: readonly vscode.TextEditor[] = vscode.window.visibleTextEditors;

  function linesIn(editor: vscode.TextEditor, at: vscode.TextEditor): readonly LineRange[] {
    const [here, there] = [at.document.uri, editor.document.uri];
    const { start, end } = at.selection;
    const lines = sourceLines(documents.linksOf(here), at.selection.active.line, linkName(there));
    return lines.length > 0
      ? lines
      : generatedLines(documents.linksOf(there), { first: start.line, last: end.line }, linkName(here));
  }

  function draw(reveal: (editor: vscode.TextEditor) => boolean): void {
    const active = vscode.window.activeTextEditor;
    const found: Marked[] = [];
    for (const editor of vscode.window.visibleTextEditors) {
      const lines = active && editor !== active ? linesIn(editor, active) : [];
      const isSmall = lines.every(({ first, last }) => last - first < mostFilled);
      const ranges = lines.map(
        ({ first, last }) => new vscode.Range(first, 0, last, Number.MAX_SAFE_INTEGER),
      );
      editor.setDecorations(filled, isSmall ? ranges : []);
      editor.setDecorations(outlined, isSmall ? [] : ranges);
      const [top] = ranges;
      if (top !== undefined) {
        found.push({ uri: editor.document.uri.toString(), lines });
        const inSight = editor.visibleRanges.some((visible) =>
          ranges.some((one) => visible.intersection(one)),
        );
        if (!inSight && reveal(editor)) {
          editor.revealRange(top, vscode.TextEditorRevealType.InCenter);
        }
      }
    }
    shown = found;
  }

  const subscriptions = vscode.Disposable.from(
    vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => {
      if (textEditor === vscode.window.activeTextEditor) {
        draw(() => true);
      }
    }),
    vscode.window.onDidChangeActiveTextEditor((editor) => {
      if (editor !== undefined) {
        draw(() => false); // a click into a panel keeps the marks
      }
    }),
    vscode.window.onDidChangeVisibleTextEditors((editors) => {
      const before = visible;
      visible = editors;
      draw((editor) => editor.document.uri.scheme === kernelScheme && !before.includes(editor));
    }),
    documents.onDidChange(() => draw(() => false)),
    vscode.workspace.onDidChangeTextDocument(({ document }) => {
      if (document.uri.scheme === kernelScheme) {
        draw(() => false); // a range is cut to the text that it was set on
      }
    }),
    filled,
    outlined,
  );
  return { marked: () => shown, dispose: () => subscriptions.dispose() };
}
