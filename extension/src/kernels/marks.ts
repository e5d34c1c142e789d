/**
 * Linked cursors: marks the lines of a source that belong to the cursor's line in a generated text, and the reverse.
 *
 * A kernel that a lens has opened is linked to the lens's line, wherever the cursor is, until the cursor moves.
 *
 * Invariant: only editors without the cursor have marks, apart from the line of a clicked lens, and no selection changes.
 * A mark has a border and a position in the overview ruler besides its color.
 */

import * as vscode from "vscode";
import { kernelScheme } from "../cursor/kernel_uri";
import { linkName } from "../cursor/source";
import type { KernelDocuments } from "./documents";
import { generatedLines, type LineRange, sourceLines } from "./lines";

/** The marked lines of one editor, for tests. */
export interface Marked {
  readonly uri: string;
  readonly lines: readonly LineRange[];
}

/** The lines of the lens that opened a kernel. */
export interface ClickedLines extends LineRange {
  readonly uri: string;
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
  /** The line of the lens that was clicked last, while it stands for the cursor. */
  let clicked: ClickedLines | null = null;

  function linesIn(editor: vscode.TextEditor, at: vscode.TextEditor): readonly LineRange[] {
    const [here, there] = [at.document.uri, editor.document.uri];
    const { start, end } = at.selection;
    const cursor = clickedIn(at) ?? { first: start.line, last: end.line };
    const lines = sourceLines(documents.linksOf(here), at.selection.active.line, linkName(there));
    return lines.length > 0 ? lines : generatedLines(documents.linksOf(there), cursor, linkName(here));
  }

  function clickedIn(editor: vscode.TextEditor): LineRange | null {
    if (clicked?.uri !== editor.document.uri.toString()) {
      return null;
    }
    const { first, last } = clicked;
    return { first, last };
  }

  function markedIn(editor: vscode.TextEditor, active: vscode.TextEditor | undefined): readonly LineRange[] {
    if (active === undefined) {
      return [];
    }
    if (editor !== active) {
      return linesIn(editor, active);
    }
    const lines = clickedIn(editor);
    return lines === null ? [] : [lines];
  }

  function draw(reveal: (editor: vscode.TextEditor) => boolean): void {
    const active = vscode.window.activeTextEditor;
    const found: Marked[] = [];
    for (const editor of vscode.window.visibleTextEditors) {
      const lines = markedIn(editor, active);
      const isSmall = lines.every(({ first, last }) => last - first < mostFilled);
      const ranges = lines.map(
        ({ first, last }) => new vscode.Range(first, 0, last, Number.MAX_SAFE_INTEGER),
      );
      editor.setDecorations(filled, isSmall ? ranges : []);
      editor.setDecorations(outlined, isSmall ? [] : ranges);
      const [top] = ranges;
      if (top !== undefined) {
        found.push({ uri: editor.document.uri.toString(), lines });
        const inSight =
          editor === active ||
          editor.visibleRanges.some((visible) => ranges.some((one) => visible.intersection(one)));
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
        clicked = null;
        draw(() => true);
      }
    }),
    vscode.window.onDidChangeActiveTextEditor((editor) => {
      if (editor !== undefined) {
        clicked = null;
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
  return {
    marked: () => shown,
    /** Links the shown kernels to these lines instead of the cursor's, until the cursor moves. */
    click(lines: ClickedLines): void {
      clicked = lines;
      draw(({ document }) => document.uri.scheme === kernelScheme);
    },
    dispose: () => subscriptions.dispose(),
  };
}
