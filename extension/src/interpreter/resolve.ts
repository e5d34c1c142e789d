/**
 * Which Python runs the server and which Python runs the user's models, as a pure function of the facts.
 *
 * Invariant: nothing here looks at the machine. `candidates` lists what to probe, `resolve` chooses among the probed,
 * and each choice carries the reason that the user sees.
 */

/** How to start a Python. `args` come before anything else: `py -3` is `{ executable: "py", args: ["-3"] }`. */
export interface Interpreter {
  readonly executable: string;
  readonly args: readonly string[];
}

/** Where a candidate came from, in the order of precedence; the last ones are only offered, never chosen. */
export type Rung =
  | "server setting"
  | "setting"
  | "environments extension"
  | "Python extension"
  | "python.defaultInterpreterPath"
  | "folder"
  | "variable"
  | "PATH"
  | "offered";

export interface Candidate {
  readonly rung: Rung;
  readonly interpreter: Interpreter;
  /** The reason, which completes "chosen because ...". */
  readonly why: string;
}

export function candidateAt(rung: Rung, executable: string, why: string): Candidate {
  return { rung, interpreter: { executable, args: [] }, why };
}

/** The facts that an interpreter reports about itself, or why it could not. */
export type Probe =
  | {
      readonly ok: true;
      readonly version: readonly [number, number];
      readonly implementation: string;
      readonly freeThreaded: boolean;
      /** The folder of its environment, the same for all paths of one Python. */
      readonly prefix: string;
      /** The version of its torch, null where it has none. */
      readonly torch: string | null;
    }
  | { readonly ok: false; readonly problem: string };

/** The settings that matter here: paths, or `""`. */
export interface Settings {
  /** Runs the server; one for the window. */
  readonly serverInterpreter: string;
  /** By folder URI; `""` stands for files outside any folder. */
  readonly interpreters: ReadonlyMap<string, string>;
}

/** The candidates of one folder, apart from the settings. */
export interface FolderFacts {
  readonly uri: string;
  readonly found: readonly Candidate[];
  /** Offered to the user, never chosen automatically. */
  readonly offered: readonly Candidate[];
}

export interface Environment {
  readonly folders: readonly FolderFacts[];
  /** Variables and PATH, which belong to the user even in an untrusted folder. */
  readonly shared: readonly Candidate[];
  /** Probes by `key` of the interpreter. A missing one was not probed. */
  readonly probes: ReadonlyMap<string, Probe>;
  /** Whether the extension carries the server's compiled libraries, which work with certain Pythons only. */
  readonly bundled: boolean;
}

export interface FolderResolution {
  readonly uri: string;
  /** Null in an untrusted workspace, and without a usable interpreter. */
  readonly choice: Candidate | null;
  readonly why: string;
}

export interface Resolution {
  readonly server: Candidate | null;
  /** The interpreters that were tried, when `server` is null. */
  readonly serverWhy: string;
  readonly folders: readonly FolderResolution[];
}

/** The Pythons for which the extension carries compiled libraries. */
export const OLDEST = [3, 10] as const;
export const NEWEST = [3, 14] as const;

/** An interpreter as a map key. */
export function key(interpreter: Interpreter): string {
  return JSON.stringify([interpreter.executable, ...interpreter.args]);
}

/** Every interpreter that may be probed. In an untrusted workspace, none that the workspace could name. */
export function candidates(
  settings: Settings,
  environment: Environment,
  trust: boolean,
): readonly Candidate[] {
  const server = pinned(settings.serverInterpreter, "server setting");
  const folders = trust
    ? environment.folders.flatMap((folder) => [...ladder(settings, environment, folder), ...folder.offered])
    : [];
  const unique = new Map<string, Candidate>();
  for (const candidate of [...server, ...folders, ...environment.shared]) {
    const at = key(candidate.interpreter);
    if (!unique.has(at)) {
      unique.set(at, candidate);
    }
  }
  return [...unique.values()];
}

export function resolve(settings: Settings, environment: Environment, trust: boolean): Resolution {
  const folders = environment.folders.map((folder): FolderResolution => {
    if (!trust) {
      return { uri: folder.uri, choice: null, why: "the workspace is not trusted" };
    }
    return chooseForFolder(ladder(settings, environment, folder), environment, folder.uri);
  });
  return { ...chooseForServer(settings, environment, folders), folders };
}

/**
 * What to do with the server after a new resolution. Another interpreter for the user's models never restarts it;
 * another setting for the server itself does.
 */
export function serverStep(
  before: Resolution | null,
  after: Resolution,
): "start" | "restart" | "keep" | "none" {
  if (after.server === null) {
    return before?.server ? "keep" : "none";
  }
  if (!before?.server) {
    return "start";
  }
  const asked = ({ server }: Resolution) => (server?.rung === "server setting" ? identity(server) : "");
  return asked(before) === asked(after) ? "keep" : "restart";
}

/** The folders whose worker gets another interpreter. */
export function changedFolders(before: Resolution | null, after: Resolution): readonly string[] {
  const old = new Map(before?.folders.map((folder) => [folder.uri, folder.choice]));
  return after.folders
    .filter(({ uri, choice }) => identity(old.get(uri)) !== identity(choice))
    .map((folder) => folder.uri);
}

function identity(choice: Candidate | null | undefined): string {
  return choice ? key(choice.interpreter) : "";
}

function ladder(settings: Settings, environment: Environment, folder: FolderFacts): readonly Candidate[] {
  const own = settings.interpreters.get(folder.uri) ?? "";
  return [...pinned(own, "setting"), ...folder.found, ...environment.shared];
}

function pinned(executable: string, rung: "setting" | "server setting"): readonly Candidate[] {
  const setting = rung === "setting" ? "fuselight.interpreter" : "fuselight.serverInterpreter";
  return executable === "" ? [] : [candidateAt(rung, executable, `set by ${setting}`)];
}

function chooseForFolder(
  tried: readonly Candidate[],
  environment: Environment,
  uri: string,
): FolderResolution {
  const refused: string[] = [];
  for (const candidate of tried) {
    const problem = unfitForWorker(environment.probes.get(key(candidate.interpreter)));
    // A wrong setting is reported: another Python in its place would surprise the user.
    if (problem === null || candidate.rung === "setting") {
      const why = problem === null ? candidate.why : `${candidate.why}, but ${problem}`;
      return { uri, choice: { ...candidate, why }, why };
    }
    refused.push(`${candidate.interpreter.executable}: ${problem}`);
  }
  const why = refused.length > 0 ? `no usable Python: ${refused.join("; ")}` : "no Python on PATH";
  return { uri, choice: null, why };
}

function chooseForServer(
  settings: Settings,
  environment: Environment,
  folders: readonly FolderResolution[],
): Omit<Resolution, "folders"> {
  const users = folders.flatMap((folder) => (folder.choice ? [folder.choice] : []));
  const asked = pinned(settings.serverInterpreter, "server setting");
  const refused: string[] = [];
  for (const candidate of [...asked, ...users, ...environment.shared]) {
    const problem = unfitForServer(environment.probes.get(key(candidate.interpreter)), environment.bundled);
    if (problem === null) {
      return { server: candidate, serverWhy: candidate.why };
    }
    refused.push(`${candidate.interpreter.executable}: ${problem}`);
  }
  const [low, high] = [OLDEST.join("."), NEWEST.join(".")];
  const tried = refused.length > 0 ? `; tried ${[...new Set(refused)].join("; ")}` : "";
  return {
    server: null,
    serverWhy: `no CPython ${low} to ${high} was found for the language server${tried}`,
  };
}

function unfitForWorker(probe: Probe | undefined): string | null {
  if (probe === undefined) {
    return "it was not probed";
  }
  if (!probe.ok) {
    return probe.problem;
  }
  return older(probe.version, OLDEST) ? `it is Python ${probe.version.join(".")}, older than 3.10` : null;
}

function unfitForServer(probe: Probe | undefined, bundled: boolean): string | null {
  const problem = unfitForWorker(probe);
  if (problem !== null || probe === undefined || !probe.ok || !bundled) {
    return problem;
  }
  if (probe.implementation !== "cpython") {
    return `it is ${probe.implementation}; the server's libraries need CPython`;
  }
  if (probe.freeThreaded) {
    return "it is a free-threaded build, which the server's libraries do not support";
  }
  return older(NEWEST, probe.version) ? `it is Python ${probe.version.join(".")}, newer than 3.14` : null;
}

function older(left: readonly [number, number], right: readonly [number, number]): boolean {
  return left[0] < right[0] || (left[0] === right[0] && left[1] < right[1]);
}

/** One entry of the picker: an environment, with the first of its paths. */
export interface Offer {
  readonly candidate: Candidate;
  readonly version: string;
  readonly torch: string | null;
}

/** The entries of the picker for a folder: each environment once, those with torch first. */
export function offers(settings: Settings, environment: Environment, uri: string): readonly Offer[] {
  const folder = environment.folders.find((one) => one.uri === uri) ?? { uri, found: [], offered: [] };
  const byEnvironment = new Map<string, Offer>();
  for (const candidate of [...ladder(settings, environment, folder), ...folder.offered]) {
    const probe = environment.probes.get(key(candidate.interpreter));
    // The setting holds only a path, so a launcher with arguments cannot be chosen.
    if (!probe?.ok || candidate.interpreter.args.length > 0) {
      continue;
    }
    if (candidate.rung === "offered" && older(probe.version, OLDEST)) {
      continue;
    }
    const version = probe.version.join(".");
    const at = JSON.stringify([probe.prefix, version]);
    if (!byEnvironment.has(at)) {
      byEnvironment.set(at, { candidate, version, torch: probe.torch });
    }
  }
  const all = [...byEnvironment.values()];
  return [...all.filter((one) => one.torch !== null), ...all.filter((one) => one.torch === null)];
}
