/** The interface of ms-python.python, with `select`, with which a test chooses for the user. */

const vscode = require("vscode");

exports.activate = () => {
  const changed = new vscode.EventEmitter();
  const selected = new Map();
  const keyOf = (resource) =>
    resource ? (vscode.workspace.getWorkspaceFolder(resource)?.uri.toString() ?? "") : "";
  return {
    environments: {
      onDidChangeActiveEnvironmentPath: changed.event,
      getActiveEnvironmentPath: (resource) => ({ path: selected.get(keyOf(resource)) ?? "python" }),
      // As theirs: what was never selected, a bare `python`, resolves to nothing.
      resolveEnvironment: async ({ path }) =>
        path === "python" ? undefined : { executable: { uri: vscode.Uri.file(path) } },
    },
    select(folder, path) {
      selected.set(folder.toString(), path);
      changed.fire({ path });
    },
  };
};
