/**
 * The language client: how the server is started, and what is put into its configuration.
 *
 * Invariant: each folder's settings carry the interpreter that was chosen for that folder (`resolvedInterpreter`),
 * so that a workspace with several folders needs no protocol of its own.
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
import type { Consent } from "./consent";
import {
  clientCommands,
  type InitializationOptions,
  type ResolvedInterpreter,
  serverCommand,
} from "./protocol";
import type { Choice, Resolution } from "./resolve";
import { section, wholeSection } from "./settings";

/** These run the folder's code, which its user has to agree to. */
const runningCommands: ReadonlySet<string> = new Set([
  serverCommand.run,
  serverCommand.kernels,
  serverCommand.bench,
]);

export interface ClientParts {
  readonly context: vscode.ExtensionContext;
  readonly log: vscode.LogOutputChannel;
  readonly messages: vscode.LogOutputChannel;
  readonly consent: Consent;
  readonly resolution: () => Resolution | null;
}

export function createClient(server: Choice, parts: ClientParts): LanguageClient {
  const { context, log, messages, consent } = parts;
  const options: LanguageClientOptions = {
    // Other schemes are read-only pictures of code, some of them our own: a server must not lint those.
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
      locale: vscode.env.language,
    }),
    // What hovers say is partly text of the folder's: it may run no command and load nothing.
    markdown: { isTrusted: false, supportHtml: false, supportThemeIcons: false },
    middleware: {
      async executeCommand(command, args, next) {
        const folder = runningCommands.has(command) ? folderOf(args[0]) : null;
        return folder === null || (await consent.mayStart(folder)) ? next(command, args) : undefined;
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

/** `-I -S`: neither the workspace nor the user's packages can get in the way of the server's own. */
export function startOf(server: Choice, context: vscode.ExtensionContext): Executable {
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

/** False in a checkout where `scripts/bundle.py` has not run: the server then uses its interpreter's packages. */
export function hasBundledLibraries(context: vscode.ExtensionContext): boolean {
  return fs.existsSync(context.asAbsolutePath("bundled/libs"));
}

/** The workspace folder of the file that a command is about. */
function folderOf(argument: unknown): string | null {
  const named = typeof argument === "object" && argument !== null && "uri" in argument ? argument.uri : null;
  const folder =
    typeof named === "string" ? vscode.workspace.getWorkspaceFolder(vscode.Uri.parse(named)) : undefined;
  return folder?.uri.toString() ?? null;
}

function withInterpreter(answer: unknown, scope: string | undefined, resolution: Resolution | null): unknown {
  const folder = scope ? vscode.workspace.getWorkspaceFolder(vscode.Uri.parse(scope)) : undefined;
  const found = resolution?.folders.find((one) => one.uri === (folder?.uri.toString() ?? ""));
  const resolvedInterpreter: ResolvedInterpreter | null = found?.choice
    ? { ...found.choice.interpreter, why: found.why }
    : null;
  return { ...(typeof answer === "object" ? answer : {}), resolvedInterpreter };
}
