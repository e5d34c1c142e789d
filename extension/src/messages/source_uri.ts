/** Whether a URI is that of a file or of a notebook's cell: a page opens nothing else. Nothing of VS Code is imported. */
export function isSourceUri(uri: unknown): uri is string {
  return typeof uri === "string" && /^(?:file|vscode-notebook-cell):/.test(uri);
}
