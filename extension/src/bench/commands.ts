/**
 * The commands of benchmarks: start, show and cancel the benchmark of a code lens or of the target at the cursor.
 *
 * Invariant: the server decides which target is meant and whether it can be measured, and its message is shown.
 */

import { linesAtCursor } from "../cursor";
import { serverCommand, type TargetAtCursor } from "../protocol";
import { inform } from "../say";
import type { BenchTarget } from "./messages";
import { benchTargetIn, startedIn } from "./target";
import type { BenchView } from "./view";

type Ask = (command: string, ...args: readonly unknown[]) => Thenable<unknown>;

export interface BenchCommands {
  benchmark(argument: unknown): Promise<void>;
  show(argument: unknown): Promise<void>;
  cancel(argument: unknown): Promise<void>;
}

export function createBenchCommands(
  view: BenchView,
  ask: Ask,
  targetAtCursor: TargetAtCursor,
): BenchCommands {
  /** The target that was benchmarked last in this window. */
  let last: BenchTarget | undefined;

  async function benchmark(argument: unknown): Promise<void> {
    const what = benchTargetIn(argument) ?? linesAtCursor();
    if (what === null) {
      void inform("Open a Python file, and place the cursor in the function or module to benchmark.");
      return;
    }
    const started = startedIn(await ask(serverCommand.bench, what));
    if (started === null) {
      return; // the user did not allow code of this folder to run
    }
    if (!started.started) {
      void inform(started.message);
    }
    if (started.target !== null) {
      const of = { uri: what.uri, target: started.target };
      last = of;
      await view.show(of);
    }
  }

  async function show(argument: unknown): Promise<void> {
    const of = benchTargetIn(argument) ?? benchTargetIn(await targetAtCursor()) ?? last;
    if (of === undefined) {
      void inform("Place the cursor in a function or module that can be benchmarked.");
      return;
    }
    await view.show(of);
  }

  /** Without a target, cancels all benchmarks. */
  async function cancel(argument: unknown): Promise<void> {
    await ask(serverCommand.cancelBench, benchTargetIn(argument) ?? {});
  }

  return { benchmark, show, cancel };
}
