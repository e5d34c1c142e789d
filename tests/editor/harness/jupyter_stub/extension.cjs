const vscode = require("vscode");

const serializer = {
  deserializeNotebook(bytes) {
    const { cells } = JSON.parse(new TextDecoder().decode(bytes));
    const made = cells.map(({ cell_type: type, source }) =>
      type === "code"
        ? new vscode.NotebookCellData(vscode.NotebookCellKind.Code, source, "python")
        : new vscode.NotebookCellData(vscode.NotebookCellKind.Markup, source, "markdown"),
    );
    return new vscode.NotebookData(made);
  },
  serializeNotebook({ cells }) {
    const written = cells.map(({ kind, value }) => ({
      cell_type: kind === vscode.NotebookCellKind.Code ? "code" : "markdown",
      source: value,
    }));
    return new TextEncoder().encode(JSON.stringify({ nbformat: 4, cells: written }));
  },
};

exports.activate = ({ subscriptions }) => {
  subscriptions.push(vscode.workspace.registerNotebookSerializer("jupyter-notebook", serializer));
};
