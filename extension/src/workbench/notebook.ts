/**
 * Cells of notebooks, which have URIs of their own.
 *
 * Invariant: only open notebooks are looked at; a URI that no cell has is none.
 */

import * as vscode from "vscode";

/** The open notebook that has a cell; null for any other URI. */
export function notebookOf(uri: vscode.Uri): vscode.Uri | null {
  const has = (notebook: vscode.NotebookDocument) =>
    notebook.getCells().some(({ document }) => document.uri.toString() === uri.toString());
  return vscode.workspace.notebookDocuments.find(has)?.uri ?? null;
}
