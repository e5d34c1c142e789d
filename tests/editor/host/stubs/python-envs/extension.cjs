/** The interface of ms-python.vscode-python-envs, with `select`, with which a test chooses for the user. */

const vscode = require("vscode");

exports.activate = () => {
  const changed = new vscode.EventEmitter();
  const selected = new Map();
  return {
    onDidChangeEnvironment: changed.event,
    getEnvironment(scope) {
      const executable = selected.get(scope?.toString() ?? "");
      return Promise.resolve(executable && { execInfo: { run: { executable, args: [] } } });
    },
    select(folder, executable) {
      selected.set(folder.toString(), executable);
      changed.fire({});
    },
  };
};
