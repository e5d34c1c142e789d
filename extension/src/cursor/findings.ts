/**
 * Next and previous finding, in this file and then in the others, and the findings at the cursor.
 *
 * Invariant: these are the entries that the Problems panel shows with Fuselight or one of its sources.
 */

import * as vscode from "vscode";

interface Place {
  readonly uri: vscode.Uri;
  readonly at: vscode.Position;
}

/** Of runs here, of open jobs, of failed tests, or of several of these. Faded lines have no code: they are no findings. */
const isOurs = ({ source, code }: vscode.Diagnostic) =>
  /^fuselight(?: |,|$)/i.test(source ?? "") && code !== undefined;

/** The code of a diagnostic, without its link. */
export function codeOf(diagnostic: vscode.Diagnostic): string {
  const { code } = diagnostic;
  return String(typeof code === "object" ? code.value : (code ?? ""));
}

/** The finding at the cursor; the user chooses where there are several. */
export async function findingAtCursor(title: string): Promise<vscode.Diagnostic | undefined> {
  const editor = vscode.window.activeTextEditor;
  const all = editor ? vscode.languages.getDiagnostics(editor.document.uri).filter(isOurs) : [];
  const found = all.filter(
    ({ range: { start, end } }) =>
      editor && start.line <= editor.selection.end.line && end.line >= editor.selection.start.line,
  );
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

/** Goes to the nearest finding after (or before) the cursor, continuing in the next file. */
export async function goToFinding(direction: 1 | -1): Promise<void> {
  const places = vscode.languages
    .getDiagnostics()
    .flatMap(([uri, all]) => all.filter(isOurs).map((finding) => ({ uri, at: finding.range.start, finding })))
    .sort(inOrder);
  const editor = vscode.window.activeTextEditor;
  const here = editor && { uri: editor.document.uri, at: editor.selection.active };
  const ordered = direction === 1 ? places : places.toReversed();
  const beyond = here && ordered.find((place) => inOrder(place, here) * direction > 0);
  const place = beyond ?? ordered[0];
  if (place === undefined) {
    vscode.window.setStatusBarMessage("Fuselight: no findings", 4000);
    return;
  }
  const { uri, at, finding } = place;
  const shown = await vscode.window.showTextDocument(uri);
  shown.selection = new vscode.Selection(at, at);
  shown.revealRange(finding.range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  const title = finding.message.split("\n", 1)[0] ?? "";
  const count = `${places.indexOf(place) + 1} of ${places.length}`;
  vscode.window.setStatusBarMessage(`Fuselight: ${count}: ${codeOf(finding)} ${title}`, 8000);
}

function inOrder(left: Place, right: Place): number {
  const [leftPath, rightPath] = [left.uri.toString(), right.uri.toString()];
  return leftPath === rightPath ? left.at.compareTo(right.at) : leftPath < rightPath ? -1 : 1;
}
