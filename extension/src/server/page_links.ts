/** Links from a finding to the page that explains its code. */

import * as vscode from "vscode";

/**
 * The same findings, with links that the editor can follow. The server links a page of ours by its path, which an
 * editor in a browser looks for on its own machine, and which desktop editors open as source.
 */
export function withPageLinks(diagnostics: readonly vscode.Diagnostic[]): vscode.Diagnostic[] {
  return diagnostics.map((diagnostic) => {
    const { code } = diagnostic;
    if (typeof code === "object" && code.target.scheme === "file") {
      const query = encodeURIComponent(JSON.stringify([code.target.toString()]));
      diagnostic.code = { ...code, target: vscode.Uri.parse(`command:fuselight.openPage?${query}`) };
    }
    return diagnostic;
  });
}

/** The address of the page of a published finding. */
export function pageOf({ code }: vscode.Diagnostic): string | null {
  if (typeof code !== "object") {
    return null;
  }
  return code.target.scheme === "command" ? String(JSON.parse(code.target.query)[0]) : code.target.toString();
}
