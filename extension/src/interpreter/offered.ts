/**
 * The Pythons that the picker offers in addition to those that are chosen automatically.
 *
 * Invariant: files are looked for and read, and nothing is executed.
 */

import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { type Candidate, candidateAt } from "./resolve.ts";

export const windows = process.platform === "win32";
export const pythonInFolder = windows ? ["Scripts", "python.exe"] : ["bin", "python"];

/** Pythons that a user may mean: environments next to the folder, recent choices, versions of pyenv, conda's list. */
export function offeredIn(folder: string | undefined, recent: readonly string[]): readonly Candidate[] {
  const parent = folder && path.dirname(folder);
  const siblings = parent ? [".venv", "venv"].map((name) => path.join(parent, name, ...pythonInFolder)) : [];
  const root =
    process.env["PYENV_ROOT"] ?? path.join(os.homedir(), ".pyenv", ...(windows ? ["pyenv-win"] : []));
  const versions = path.join(root, "versions");
  const inVersion = windows ? ["python.exe"] : pythonInFolder;
  const pyenv = list(versions).map((name) => path.join(versions, name, ...inVersion));
  const conda = read(path.join(os.homedir(), ".conda", "environments.txt"))
    .split(/\r?\n/)
    .map((prefix) => path.join(prefix.trim(), ...inVersion));
  const of = (why: string, executables: readonly string[]) =>
    executables
      .filter((executable) => path.isAbsolute(executable) && fs.existsSync(executable))
      .map((executable) => candidateAt("offered", executable, why));
  return [
    ...of("chosen recently", recent),
    ...of("next to the folder", siblings),
    ...of("pyenv", pyenv),
    ...of("conda", conda),
  ];
}

function newestFirst(left: string, right: string): number {
  return right.localeCompare(left, "en", { numeric: true });
}

function list(folder: string): readonly string[] {
  return fs.existsSync(folder) ? fs.readdirSync(folder).toSorted(newestFirst) : [];
}

function read(file: string): string {
  return fs.existsSync(file) && fs.statSync(file).isFile() ? fs.readFileSync(file, "utf8") : "";
}

/** The interpreter at a path that the user typed: an executable, or the folder of an environment. */
export function pythonAt(typed: string): string {
  const names = [["bin", "python"], ["Scripts", "python.exe"], ["python.exe"]];
  const inside = names.map((name) => path.join(typed, ...name)).find((file) => fs.existsSync(file));
  return inside ?? typed;
}
