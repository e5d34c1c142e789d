/**
 * Next and previous finding, through this file and then the others, and the findings under the cursor.
 *
 * Invariant: what is walked is what the Problems panel shows with the source "fuselight", nothing else.
 */

import * as vscode from "vscode";

export interface Place {
  readonly uri: vscode.Uri;
  readonly diagnostic: vscode.Diagnostic;
}

/** The code of a diagnostic, without the link that goes with it. */
export function codeOf(diagnostic: vscode.Diagnostic): string {
  const { code } = diagnostic;
  return String(typeof code === "object" ? code.value : (code ?? ""));
}

/** Fuselight's findings on the lines of `selection`. */
export function findingsAt(uri: vscode.Uri, selection: vscode.Range): readonly vscode.Diagnostic[] {
  return vscode.languages
    .getDiagnostics(uri)
    .filter((one) => one.source === "fuselight")
    .filter(
      (one) => one.range.start.line <= selection.end.line && one.range.end.line >= selection.start.line,
    );
}

/** Move to the nearest finding after (or before) the cursor; past the last of this file comes the next file. */
export async function goToFinding(direction: 1 | -1): Promise<void> {
  const places = allFindings();
  const editor = vscode.window.activeTextEditor;
  const place = pick(places, editor, direction);
  if (place === undefined) {
    vscode.window.setStatusBarMessage("Fuselight: no findings", 4000);
    return;
  }
  const shown = await vscode.window.showTextDocument(place.uri);
  shown.selection = new vscode.Selection(place.diagnostic.range.start, place.diagnostic.range.start);
  shown.revealRange(place.diagnostic.range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  const title = place.diagnostic.message.split("\n", 1)[0] ?? "";
  const count = `${places.indexOf(place) + 1} of ${places.length}`;
  vscode.window.setStatusBarMessage(`Fuselight: ${count}: ${codeOf(place.diagnostic)} ${title}`, 8000);
}

function allFindings(): readonly Place[] {
  return vscode.languages
    .getDiagnostics()
    .flatMap(([uri, diagnostics]) => diagnostics.map((diagnostic) => ({ uri, diagnostic })))
    .filter((place) => place.diagnostic.source === "fuselight")
    .sort(inOrder);
}

function inOrder(left: Place, right: Place): number {
  const [leftPath, rightPath] = [left.uri.toString(), right.uri.toString()];
  if (leftPath !== rightPath) {
    return leftPath < rightPath ? -1 : 1;
  }
  return left.diagnostic.range.start.compareTo(right.diagnostic.range.start);
}

function pick(
  places: readonly Place[],
  editor: vscode.TextEditor | undefined,
  direction: 1 | -1,
): Place | undefined {
  const ordered = direction === 1 ? places : places.toReversed();
  if (editor === undefined) {
    return ordered[0];
  }
  const here = editor.document.uri.toString();
  const beyond = ordered.find((place) => {
    const there = place.uri.toString();
    if (there !== here) {
      return direction === 1 ? there > here : there < here;
    }
    return place.diagnostic.range.start.compareTo(editor.selection.active) * direction > 0;
  });
  return beyond ?? ordered[0];
}
