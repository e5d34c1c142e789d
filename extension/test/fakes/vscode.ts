/** VS Code as the owner of the language client sees it: a trusted window without a folder. */

type Listener<T> = (event: T) => void;

export class Emitter<T> {
  private readonly listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>) => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };
  fire(event: T): void {
    for (const listener of [...this.listeners]) {
      listener(event);
    }
  }
}

export const Uri = { parse: (text: string) => ({ toString: () => text }) };

export const saved = new Emitter<object>();
export const closed = new Emitter<object>();

/** What the Python extension answers. */
export const pythonExtension: { activate: () => Promise<unknown> } = {
  activate: () => Promise.resolve(null),
};

const notebook = "file:///project/steps.ipynb";
/** A cell of an open notebook of the folder `file:///work`. */
export const cell = "vscode-notebook-cell:/project/steps.ipynb#W0";

export const workspace = {
  isTrusted: true,
  notebookDocuments: [{ uri: Uri.parse(notebook), getCells: () => [{ document: { uri: Uri.parse(cell) } }] }],
  getWorkspaceFolder: (uri: { toString(): string }) =>
    uri.toString().startsWith("file:///project/") ? { uri: Uri.parse("file:///work") } : undefined,
  workspaceFolders: undefined,
  onDidSaveTextDocument: saved.event,
  onDidCloseTextDocument: closed.event,
  getConfiguration: () => ({ get: (_name: string, fallback?: unknown) => fallback }),
};
export const window = {
  showWarningMessage: () => Promise.resolve(undefined),
  showInformationMessage: () => Promise.resolve(undefined),
  showErrorMessage: () => Promise.resolve(undefined),
};
export const extensions = { getExtension: () => pythonExtension };
export const commands = {};
export const ConfigurationTarget = { Global: 1, Workspace: 2, WorkspaceFolder: 3 };
export class CodeAction {}
export const env = { language: "en" };
