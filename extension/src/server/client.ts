/**
 * The language client: how the server starts, and what the client adds to its configuration.
 *
 * Invariant: the settings of each folder carry the interpreter that was chosen for it (`resolvedInterpreter`), so that
 * a workspace with several folders needs no further protocol.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import {
  type Executable,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";
import type { Candidate, Resolution } from "../interpreter/resolve";
import { fieldsOf } from "../messages/fields";
import {
  clientCommands,
  type InitializationOptions,
  type ResolvedInterpreter,
  serverCommand,
} from "../messages/protocol";
import { notebookOf } from "../workbench/notebook";
import { section, wholeSection } from "../workbench/settings";
import type { Consent } from "./consent";
import { withPageLinks } from "./page_links";
import { sayRefusalCommand, withShownReason } from "./refused_fixes";

/** Where the server writes what it has a client show. */
const viewFolder = "/.fuselight/views/";
/** Commands that run code of the folder, which needs the user's consent. */
const runningCommands: ReadonlySet<string> = new Set([
  serverCommand.run,
  serverCommand.kernels,
  serverCommand.accuracy,
  serverCommand.memory,
  serverCommand.bench,
  serverCommand.tune,
  serverCommand.applyFix,
  serverCommand.applyAllFixes,
  serverCommand.verifyForecast,
  serverCommand.useInputs,
  serverCommand.repro,
]);

export interface ClientParts {
  readonly context: vscode.ExtensionContext;
  readonly log: vscode.LogOutputChannel;
  readonly messages: vscode.LogOutputChannel;
  readonly consent: Consent;
  readonly resolution: () => Resolution | null;
  /** Called before code of a folder runs because the user asked for it; null stands for files outside any folder. */
  readonly beforeRun: (folder: string | null) => Promise<void>;
}

export function createClient(server: Candidate, parts: ClientParts): LanguageClient {
  const { context, log, messages, consent } = parts;
  const options: LanguageClientOptions = {
    // Other schemes are read-only views of code, such as generated kernels, which must not be linted.
    documentSelector: ["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({
      scheme,
      language: "python",
    })),
    outputChannel: log,
    traceOutputChannel: messages,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    diagnosticCollectionName: "fuselight",
    synchronize: { configurationSection: section },
    initializationOptions: (): InitializationOptions => ({
      settings: wholeSection(),
      trusted: vscode.workspace.isTrusted,
      storage: context.globalStorageUri.fsPath,
      clientCommands,
      confirmRun: true,
      previewFix: true,
      notifications: true,
      textLenses: true,
      longCommands: true,
      locale: vscode.env.language,
    }),
    // Hovers contain text of the folder, which must not run commands or load anything.
    markdown: { isTrusted: false, supportHtml: false, supportThemeIcons: false },
    middleware: {
      handleDiagnostics: (uri, diagnostics, next) => next(uri, withPageLinks(diagnostics)),
      async provideCodeActions(document, range, context, token, next) {
        return (await next(document, range, context, token))?.map(withShownReason);
      },
      // An entry that only says why is complete; the server would take it for a fix that is gone.
      resolveCodeAction: (action, token, next) =>
        action.command?.command === sayRefusalCommand ? action : next(action, token),
      async executeCommand(command, args, next) {
        if (!runningCommands.has(command)) {
          return next(command, args);
        }
        const folder = folderAt(fieldsOf(args[0])["uri"]);
        if (folder !== null && !(await consent.mayStart(folder))) {
          return undefined;
        }
        await parts.beforeRun(folder);
        return next(command, args);
      },
      window: {
        // In a preview tab, the next view would take the place of this one: a repro comes with its issue.
        async showDocument(params, token, next) {
          const answer = await next(params, token);
          if (params.external !== true && params.uri.includes(viewFolder)) {
            await vscode.commands.executeCommand("workbench.action.keepEditor");
          }
          return answer;
        },
      },
      workspace: {
        async configuration(params, token, next) {
          const answers = await next(params, token);
          if (!Array.isArray(answers)) {
            return answers;
          }
          return params.items.map((item, index) =>
            item.section === section
              ? withInterpreter(answers[index], item.scopeUri, parts.resolution())
              : answers[index],
          );
        },
      },
    },
  };
  return new LanguageClient(section, "Fuselight", startOf(server, context), options);
}

/** `-I -S`: neither the workspace nor the user's packages can shadow the server's own. */
export function startOf(server: Candidate, context: vscode.ExtensionContext): Executable {
  const bytecode = path.join(context.globalStorageUri.fsPath, "pyc");
  const launcher = path.join(context.extensionPath, "bundled", "launch.py");
  const isolation = hasBundledLibraries(context) ? ["-I", "-S"] : ["-I"];
  return {
    command: server.interpreter.executable,
    args: [
      ...server.interpreter.args,
      ...isolation,
      "-X",
      "utf8",
      "-X",
      `pycache_prefix=${bytecode}`,
      launcher,
    ],
    options: { cwd: context.extensionPath, env: { ...process.env } },
  };
}

/** False in a checkout without `bundled/libs`: the server then uses the packages of its interpreter. */
export function hasBundledLibraries(context: vscode.ExtensionContext): boolean {
  return fs.existsSync(context.asAbsolutePath("bundled/libs"));
}

/** The workspace folder of a file, or of the notebook of a cell. */
function folderAt(text: unknown): string | null {
  if (typeof text !== "string") {
    return null;
  }
  const uri = vscode.Uri.parse(text);
  return vscode.workspace.getWorkspaceFolder(notebookOf(uri) ?? uri)?.uri.toString() ?? null;
}

function withInterpreter(answer: unknown, scope: string | undefined, resolution: Resolution | null): unknown {
  const folder = folderAt(scope) ?? "";
  const found = resolution?.folders.find(({ uri }) => uri === folder);
  const resolvedInterpreter: ResolvedInterpreter | null = found?.choice
    ? { ...found.choice.interpreter, why: found.why }
    : null;
  return { ...(typeof answer === "object" ? answer : {}), resolvedInterpreter };
}
