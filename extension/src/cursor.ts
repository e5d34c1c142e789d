/**
 * The file, folder and lines that the user means by the active editor.
 *
 * Invariant: a generated kernel stands for its source file, and its own lines mean nothing to the server.
 */

import * as vscode from "vscode";
import { sourceOf } from "./kernels/documents";

/** Lines of a file, from 0, both inclusive. */
export interface SourceLines {
  readonly uri: string;
  readonly line: number;
  readonly last: number;
}

/** The lines of the cursor or the selection in a Python file; null elsewhere. */
export function linesAtCursor(): SourceLines | null {
  const editor = vscode.window.activeTextEditor;
  const uri = editor?.document.uri;
  if (editor?.document.languageId !== "python" || uri === undefined || sourceOf(uri) !== uri) {
    return null;
  }
  const { start, end } = editor.selection;
  return { uri: uri.toString(), line: start.line, last: end.line };
}

export function activeFolder(): string | null {
  const uri = vscode.window.activeTextEditor?.document.uri;
  const folder = uri
    ? vscode.workspace.getWorkspaceFolder(sourceOf(uri))
    : vscode.workspace.workspaceFolders?.[0];
  return folder?.uri.toString() ?? null;
}
