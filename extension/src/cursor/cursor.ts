/**
 * The file, folder, lines and target that the user means by the active editor.
 *
 * Invariant: a generated kernel stands for its source file, and its own lines mean nothing to the server.
 */

import * as vscode from "vscode";
import type { GraphTarget } from "../messages/graphs";
import { targetAtRequest } from "../messages/protocol";
import type { Lifecycle } from "../server/lifecycle";
import { kernelOf, sourceOf } from "./source";

/** The lines of the cursor or the selection in a Python file or cell, from 0, both inclusive; null elsewhere. */
export function linesAtCursor(): { uri: string; line: number; last: number } | null {
  const editor = vscode.window.activeTextEditor;
  const uri = editor?.document.uri;
  if (editor?.document.languageId !== "python" || uri === undefined || kernelOf(uri) !== null) {
    return null;
  }
  const { start, end } = editor.selection;
  return { uri: uri.toString(), line: start.line, last: end.line };
}

/** The target at the cursor, as the server finds it; null outside a Python file. */
export async function targetAtCursor(lifecycle: Lifecycle): Promise<GraphTarget | null> {
  const lines = linesAtCursor();
  if (lines === null) {
    return null;
  }
  const { uri, line } = lines;
  await lifecycle.ready();
  const target = (await lifecycle.request(targetAtRequest, { uri, line }))?.target ?? null;
  return { uri: sourceOf(vscode.Uri.parse(uri)).toString(), target };
}

export function activeFolder(): string | null {
  return folderOf(vscode.window.activeTextEditor?.document.uri);
}

/** The workspace folder of a file or a generated kernel; without one, the first folder. */
export function folderOf(uri: vscode.Uri | undefined): string | null {
  const folder = uri
    ? vscode.workspace.getWorkspaceFolder(sourceOf(uri))
    : vscode.workspace.workspaceFolders?.[0];
  return folder?.uri.toString() ?? null;
}
