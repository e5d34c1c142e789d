/**
 * Helpers of the tests in the extension host: findings and lenses of a file, and runs that are awaited.
 *
 * The suites of a label share an editor, its folders and its server: each sets what it needs, and sets it back.
 */

const vscode = require("vscode");

const folders = () => vscode.workspace.workspaceFolders;

function support(uri) {
  const findings = () => vscode.languages.getDiagnostics(uri).filter((one) => one.source === "fuselight");
  return {
    findings,
    codes: () => findings().map((one) => String(one.code?.value ?? one.code)),
    /** Resolves at the first set of findings for which `wanted` holds, including the current one. */
    until(wanted) {
      return new Promise((done) => {
        const check = () => wanted(findings()) && done(listener.dispose());
        const listener = vscode.languages.onDidChangeDiagnostics(check);
        check();
      });
    },
    async lenses() {
      const found = await vscode.commands.executeCommand("vscode.executeCodeLensProvider", uri, 100);
      return found.map((lens) => lens.command.title);
    },
  };
}

/** The extension's handles, once it has resolved interpreters and started the server. */
async function activate(uri) {
  await vscode.window.showTextDocument(uri);
  const api = await vscode.extensions.getExtension("fuselight.fuselight").activate();
  await api.ready;
  return api;
}

/** Runs the active file and waits until all results are published. */
async function runFile(api, folder = folders()[0].uri.toString()) {
  const next = api.generation() + 1;
  await vscode.commands.executeCommand("fuselight.runFile");
  return api.until((one) => one.folder === folder && one.state === "idle" && one.generation >= next);
}

/** Sets `fuselight.interpreter` of a folder, or unsets it, and waits until the server knows. */
async function setInterpreter(api, folder, executable) {
  const configuration = vscode.workspace.getConfiguration("fuselight", folder.uri);
  await configuration.update("interpreter", executable, vscode.ConfigurationTarget.WorkspaceFolder);
  const uri = folder.uri.toString();
  const chosen = () => api.resolution().folders.find((one) => one.uri === uri);
  await until(() => /^set by/.test(chosen().why) === (executable !== undefined));
  const interpreter = () => chosen().choice?.interpreter.executable ?? null;
  await until(() => executable === undefined || interpreter() === executable);
  await api.until((one) => one.folder === uri && one.interpreter === interpreter());
}

/** For what has no event. */
async function until(holds) {
  while (!holds()) {
    await new Promise((again) => setTimeout(again, 20));
  }
}

/** The process id of a folder's worker, or null. */
async function workerPid(folder) {
  const report = String(await vscode.commands.executeCommand("fuselight.server.problemReport"));
  const [, own] = report.split(`## Folder ${folder.uri.fsPath}\n`);
  return Number(/worker: pid (\d+)/.exec(own.split("## ")[0])?.[1]) || null;
}

/** Replaces the first `old` of a file by `text` in the editor, as typing would, and saves. */
async function editAndSave(uri, old, text) {
  const editor = await vscode.window.showTextDocument(uri);
  const at = editor.document.getText().indexOf(old);
  const range = new vscode.Range(editor.document.positionAt(at), editor.document.positionAt(at + old.length));
  await editor.edit((edit) => edit.replace(range, text));
  await editor.document.save();
}

module.exports = { activate, editAndSave, folders, runFile, setInterpreter, support, until, workerPid };
