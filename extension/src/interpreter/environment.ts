/**
 * Finds the Pythons of the machine (the Python extensions, the folder, variables, PATH, pyenv, conda) and probes them.
 *
 * Invariant: nothing in an untrusted workspace is executed or read.
 */

import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { textOf } from "../workbench/say";
import { readPath } from "../workbench/settings";
import { within } from "../workbench/within";
import { offeredIn, pythonInFolder, windows } from "./offered";
import {
  type Candidate,
  candidateAt,
  candidates,
  type Environment,
  type FolderFacts,
  type Interpreter,
  key,
  type Probe,
  type Settings,
} from "./resolve";

const probeMilliseconds = 5000;
/** A Python extension that looks for environments may take long, or never answer: the server starts without it. */
const extensionMilliseconds = 10_000;

/** The part of `ms-python.python`'s interface that is used. */
interface PythonExtension {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(environment: {
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri | undefined } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** The part of `ms-python.vscode-python-envs`' interface that is used. */
interface EnvironmentsExtension {
  getEnvironment(scope: vscode.Uri | undefined): Promise<
    | {
        readonly execInfo?: {
          readonly run?: { readonly executable?: string; readonly args?: readonly string[] };
        };
      }
    | undefined
  >;
  readonly onDidChangeEnvironment: vscode.Event<unknown>;
}

export interface Search {
  readonly trust: boolean;
  readonly bundled: boolean;
  readonly log: vscode.LogOutputChannel;
  /** Also the Pythons that are offered in the picker; `recent` are the paths that the user chose before. */
  readonly offer?: { readonly recent: readonly string[] };
}

/** Everything that `resolve` needs. Candidates are probed in parallel; a slow one takes at most five seconds. */
export async function look(settings: Settings, { trust, bundled, log, offer }: Search): Promise<Environment> {
  const scopes = [...(vscode.workspace.workspaceFolders ?? []), undefined];
  const folders = await Promise.all(
    scopes.map(async (folder): Promise<FolderFacts> => {
      const uri = folder?.uri.toString() ?? "";
      const found = trust ? await lookInFolder(folder, log) : [];
      return { uri, found, offered: trust && offer ? offeredIn(folder?.uri.fsPath, offer.recent) : [] };
    }),
  );
  const unprobed: Environment = {
    folders,
    shared: [...fromVariables(), ...fromPath()],
    probes: new Map(),
    bundled,
  };
  const wanted = candidates(settings, unprobed, trust).map((candidate) => candidate.interpreter);
  const probes = await Promise.all(wanted.map(async (one) => [key(one), await probe(one)] as const));
  return { ...unprobed, probes: new Map(probes) };
}

/** Calls `changed` when the user selects another interpreter in a Python extension. */
export async function onInterpreterSelected(
  changed: () => void,
  log: vscode.LogOutputChannel,
): Promise<readonly vscode.Disposable[]> {
  const [environments, python] = await Promise.all([
    asked("The Python Environments extension", environmentsExtension(log), log),
    asked("The Python extension", pythonExtension(log), log),
  ]);
  return [
    ...(environments ? [environments.onDidChangeEnvironment(changed)] : []),
    ...(python?.environments ? [python.environments.onDidChangeActiveEnvironmentPath(changed)] : []),
  ];
}

async function lookInFolder(
  folder: vscode.WorkspaceFolder | undefined,
  log: vscode.LogOutputChannel,
): Promise<readonly Candidate[]> {
  const selected = await Promise.all([
    asked("The Python Environments extension", fromEnvironmentsExtension(folder, log), log),
    asked("The Python extension", fromPythonExtension(folder, log), log),
  ]);
  const setting = readPath("defaultInterpreterPath", folder, "python");
  const found: Candidate[] = selected.flatMap((one) => (one ? [one] : []));
  if (setting !== "" && setting !== "python") {
    found.push(candidateAt("python.defaultInterpreterPath", setting, "set by python.defaultInterpreterPath"));
  }
  for (const name of folder ? [".venv", "venv"] : []) {
    const executable = path.join(folder?.uri.fsPath ?? "", name, ...pythonInFolder);
    if (fs.existsSync(executable)) {
      found.push(candidateAt("folder", executable, `${name} in the folder`));
    }
  }
  return found;
}

/** Why a path that the user chose cannot be used; null when it can. */
export async function problemAt(executable: string): Promise<string | null> {
  const found = await probe({ executable, args: [] });
  return found.ok ? null : found.problem;
}

/** The answer of another extension; null where it fails or takes too long, which the log says. */
async function asked<T>(
  who: string,
  answer: Promise<T | null>,
  log: vscode.LogOutputChannel,
): Promise<T | null> {
  try {
    return await within(extensionMilliseconds, answer);
  } catch (error) {
    log.warn(`${who} named no interpreter: ${textOf(error)}`);
    return null;
  }
}

async function fromEnvironmentsExtension(
  folder: vscode.WorkspaceFolder | undefined,
  log: vscode.LogOutputChannel,
): Promise<Candidate | null> {
  const run = (await (await environmentsExtension(log))?.getEnvironment(folder?.uri))?.execInfo?.run;
  if (!run?.executable) {
    return null;
  }
  const interpreter = { executable: run.executable, args: run.args ?? [] };
  const why = "selected in the Python Environments extension";
  return { rung: "environments extension", interpreter, why };
}

async function fromPythonExtension(
  folder: vscode.WorkspaceFolder | undefined,
  log: vscode.LogOutputChannel,
): Promise<Candidate | null> {
  const environments = (await pythonExtension(log))?.environments;
  const selected = environments?.getActiveEnvironmentPath(folder?.uri);
  if (!environments || !selected) {
    return null;
  }
  // Until the extension resolves it, the path may be a folder or a bare `python`.
  const executable = (await environments.resolveEnvironment(selected))?.executable.uri?.fsPath;
  return executable ? candidateAt("Python extension", executable, "selected in the Python extension") : null;
}

const environmentsExtension = (log: vscode.LogOutputChannel) =>
  api<EnvironmentsExtension>("ms-python.vscode-python-envs", log);
const pythonExtension = (log: vscode.LogOutputChannel) => api<PythonExtension>("ms-python.python", log);

/** Null also for an extension without an interface, as when `python.useEnvironmentsExtension` is off. */
async function api<T>(id: string, log: vscode.LogOutputChannel): Promise<T | null> {
  try {
    return (await vscode.extensions.getExtension<T | null | undefined>(id)?.activate()) ?? null;
  } catch (error) {
    log.warn(`${id} could not be asked for its interpreter: ${String(error)}`);
    return null;
  }
}

function fromVariables(): readonly Candidate[] {
  return ["VIRTUAL_ENV", "CONDA_PREFIX"].flatMap((variable): Candidate[] => {
    const prefix = process.env[variable];
    const inConda = windows && variable === "CONDA_PREFIX" ? ["python.exe"] : pythonInFolder;
    return prefix ? [candidateAt("variable", path.join(prefix, ...inConda), `named by ${variable}`)] : [];
  });
}

function fromPath(): readonly Candidate[] {
  const names = windows ? ["python.exe", "python3.exe"] : ["python3", "python"];
  const folders = (process.env["PATH"] ?? "").split(path.delimiter).filter((folder) => folder !== "");
  const found = names.flatMap((name): Candidate[] => {
    const executable = folders.map((folder) => path.join(folder, name)).find((file) => fs.existsSync(file));
    return executable ? [candidateAt("PATH", executable, `the first ${name} on PATH`)] : [];
  });
  const interpreter = { executable: "py", args: ["-3"] };
  const launcher: Candidate = { rung: "PATH", interpreter, why: "the newest of the py launcher" };
  return windows ? [...found, launcher] : found;
}

/** Imports no installed package: torch's version is in its metadata, which may be among the user's own packages. */
const question = `
import json, site, sys, sysconfig
if sys.prefix == sys.base_prefix:
    sys.path.append(site.getusersitepackages())
try:
    from importlib.metadata import version
    torch = version("torch")
except ImportError:
    torch = None
print(json.dumps({
    "version": sys.version_info[:2],
    "implementation": sys.implementation.name,
    "freeThreaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "prefix": sys.prefix,
    "torch": torch,
}))
`;

function probe(interpreter: Interpreter): Promise<Probe> {
  return new Promise((done) => {
    execFile(
      interpreter.executable,
      [...interpreter.args, "-I", "-c", question],
      { timeout: probeMilliseconds, windowsHide: true },
      (error, stdout, stderr) => {
        const answer = error ? null : answerOf(stdout);
        done(answer ?? { ok: false, problem: problemOf(error, stderr) });
      },
    );
  });
}

function answerOf(stdout: string): Probe | null {
  try {
    // A `sitecustomize` may print first.
    const answer = JSON.parse(stdout.trim().split("\n").at(-1) ?? "");
    return typeof answer.implementation === "string" ? { ok: true, ...answer } : null;
  } catch {
    return null;
  }
}

function problemOf(error: (Error & { code?: unknown; killed?: boolean }) | null, stderr: string): string {
  if (error?.killed) {
    return `it did not answer within ${probeMilliseconds / 1000} seconds`;
  }
  if (error?.code === "ENOENT") {
    return "no such file";
  }
  if (error?.code === "EACCES") {
    return "not executable";
  }
  const last = stderr.trim().split("\n").at(-1);
  return last ? `it failed: ${last}` : "it did not answer like a Python interpreter";
}
