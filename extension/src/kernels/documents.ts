/**
 * The texts of generated kernels, as read-only files that the server makes.
 *
 * Invariant: a closed text is forgotten. An open text is requested again whenever the report of its target changes, so
 * that a restored tab fills again.
 */

import * as vscode from "vscode";
import { idOf, kernelScheme } from "../cursor/kernel_uri";
import { kernelOf, nameOf } from "../cursor/source";
import { kernelDocumentRequest } from "../messages/protocol";
import type { KernelDocumentParams, KernelLink, KernelText } from "../messages/server_types";
import type { Lifecycle } from "../server/lifecycle";

interface Shown {
  readonly bytes: Uint8Array;
  readonly mtime: number;
  readonly document: KernelText | null;
  readonly links: readonly KernelLink[];
}

const noServer = `# The Fuselight language server is not running yet. The text appears when it starts.\n`;
const notOurs = `# This address does not name a kernel.\n`;
const settle = 300;

export type KernelDocuments = ReturnType<typeof createKernelDocuments>;

export function createKernelDocuments(lifecycle: Lifecycle) {
  const shown = new Map<string, Shown>();
  const files = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  const changed = new vscode.EventEmitter<undefined>();
  let clock = 1;
  let timer: NodeJS.Timeout | undefined;

  async function read(uri: vscode.Uri): Promise<Shown> {
    const id = idOf(uri.query);
    const document = id ? await lifecycle.request(kernelDocumentRequest, id) : null;
    const bytes = Buffer.from(document?.text ?? (id ? noServer : notOurs), "utf8");
    const before = shown.get(uri.toString());
    const same = before !== undefined && Buffer.compare(before.bytes, bytes) === 0;
    const links = id && document ? linksIn(id, document) : [];
    const now = { bytes, document, links, mtime: same ? before.mtime : clock++ };
    shown.set(uri.toString(), now);
    return now;
  }

  async function readAgain(uri: vscode.Uri): Promise<void> {
    const before = shown.get(uri.toString())?.mtime;
    const { mtime } = await read(uri);
    if (!vscode.workspace.textDocuments.some((document) => document.uri.toString() === uri.toString())) {
      shown.delete(uri.toString()); // closed before the answer
    } else if (mtime !== before) {
      files.fire([{ type: vscode.FileChangeType.Changed, uri }]);
    }
  }

  const readOnly = (uri: vscode.Uri) => {
    throw vscode.FileSystemError.NoPermissions(uri);
  };
  const provider: vscode.FileSystemProvider = {
    onDidChangeFile: files.event,
    watch: () => new vscode.Disposable(() => undefined),
    async stat(uri) {
      const { bytes, mtime } = shown.get(uri.toString()) ?? (await read(uri));
      const permissions = vscode.FilePermission.Readonly;
      return { type: vscode.FileType.File, ctime: 0, mtime, size: bytes.length, permissions };
    },
    readFile: async (uri) => (shown.get(uri.toString()) ?? (await read(uri))).bytes,
    readDirectory: () => [],
    createDirectory: readOnly,
    writeFile: readOnly,
    delete: readOnly,
    rename: readOnly,
  };

  /** Requests the open texts of a source file again; without `source`, all of them. */
  async function update(source: string | null): Promise<void> {
    const wanted = vscode.workspace.textDocuments.filter(({ uri }) => {
      const id = kernelOf(uri);
      return id !== null && (source === null || vscode.Uri.parse(id.uri).toString() === source);
    });
    await Promise.all(wanted.map(({ uri }) => readAgain(uri)));
    changed.fire(undefined);
  }

  const subscriptions = vscode.Disposable.from(
    vscode.workspace.registerFileSystemProvider(kernelScheme, provider, {
      isReadonly: true,
      isCaseSensitive: true,
    }),
    vscode.workspace.onDidCloseTextDocument(({ uri }) => shown.delete(uri.toString())),
    vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      const edited = document.uri.toString();
      const linked = [...shown.values()].some((one) => one.document?.links.some(({ uri }) => uri === edited));
      if (linked && contentChanges.length > 0) {
        clearTimeout(timer); // the server tracks the lines; it is asked when typing pauses
        timer = setTimeout(() => void update(null), settle);
      }
    }),
    files,
    changed,
    new vscode.Disposable(() => clearTimeout(timer)),
  );

  return {
    /** The answer of the server for an open text; null for an unknown one. */
    of: (uri: vscode.Uri) => shown.get(uri.toString())?.document ?? null,
    /** Which lines of an open text come from which lines of source files and of the kernel's own source. */
    linksOf: (uri: vscode.Uri) => shown.get(uri.toString())?.links ?? [],
    /** The report of a source file changed; without `uri`, any may have. */
    changed: (uri?: string) => update(uri === undefined ? null : vscode.Uri.parse(uri).toString()),
    /** Links or texts were requested again. */
    onDidChange: changed.event,
    dispose: () => subscriptions.dispose(),
  };
}

function linksIn(id: KernelDocumentParams, { links, sourceLinks }: KernelText): readonly KernelLink[] {
  const uri = nameOf({ ...id, form: "source" });
  return [...links, ...sourceLinks.map((link) => ({ ...link, uri }))];
}
