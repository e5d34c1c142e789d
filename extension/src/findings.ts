/**
 * Next and previous finding, in this file and then in the others, and the findings at the cursor.
 *
 * Invariant: these are the entries that the Problems panel shows with the source "fuselight".
 */

import * as vscode from "vscode";

interface LocatedFinding {
  readonly uri: vscode.Uri;
  readonly diagnostic: vscode.Diagnostic;
}

/** The code of a diagnostic, without its link. */
export function codeOf(diagnostic: vscode.Diagnostic): string {
  const { code } = diagnostic;
  return String(typeof code === "object" ? code.value : (code ?? ""));
}

/** The finding at the cursor; the user chooses where there are several. */
export async function findingAtCursor(title: string): Promise<vscode.Diagnostic | undefined> {
  const editor = vscode.window.activeTextEditor;
  const found = editor ? findingsAt(editor.document.uri, editor.selection) : [];
  if (found.length === 0) {
    vscode.window.setStatusBarMessage("Fuselight: no finding on this line", 4000);
  }
  if (found.length < 2) {
    return found[0];
  }
  const entries = found.map((finding) => ({
    label: codeOf(finding),
    description: finding.message.split("\n", 1)[0] ?? "",
    finding,
  }));
  return (await vscode.window.showQuickPick(entries, { title }))?.finding;
}

/** Fuselight's findings on the lines of `selection`. */
function findingsAt(uri: vscode.Uri, selection: vscode.Range): readonly vscode.Diagnostic[] {
  return vscode.languages
    .getDiagnostics(uri)
    .filter((one) => one.source === "fuselight")
    .filter(
      (one) => one.range.start.line <= selection.end.line && one.range.end.line >= selection.start.line,
    );
}

/** Goes to the nearest finding after (or before) the cursor, continuing in the next file. */
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

function allFindings(): readonly LocatedFinding[] {
  return vscode.languages
    .getDiagnostics()
    .flatMap(([uri, diagnostics]) => diagnostics.map((diagnostic) => ({ uri, diagnostic })))
    .filter((place) => place.diagnostic.source === "fuselight")
    .sort(inOrder);
}

function inOrder(left: LocatedFinding, right: LocatedFinding): number {
  const [leftPath, rightPath] = [left.uri.toString(), right.uri.toString()];
  if (leftPath !== rightPath) {
    return leftPath < rightPath ? -1 : 1;
  }
  return left.diagnostic.range.start.compareTo(right.diagnostic.range.start);
}

function pick(
  places: readonly LocatedFinding[],
  editor: vscode.TextEditor | undefined,
  direction: 1 | -1,
): LocatedFinding | undefined {
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
