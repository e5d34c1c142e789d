/**
 * The rows and the stages of a compile's flame chart. Does not use the DOM.
 *
 * Invariant: steps in one row do not overlap, and a step is below every outer step that runs at the same time.
 */

import type { StepRow } from "../../src/messages/page_types";

export interface FlameBox {
  readonly step: StepRow;
  readonly row: number;
}

/** Rounding may let adjacent steps overlap by this many microseconds. */
const rounding = 0.5;

export function flameRows(steps: readonly StepRow[]): readonly FlameBox[] {
  const ordered = steps.toSorted((left, right) => left.depth - right.depth || left.start_us - right.start_us);
  const placed: FlameBox[] = [];
  for (const step of ordered) {
    const meanwhile = placed.filter((box) => overlap(box.step, step));
    const above = meanwhile.filter((box) => box.step.depth < step.depth).map(({ row }) => row);
    const taken = new Set(meanwhile.map(({ row }) => row));
    let row = Math.max(-1, ...above) + 1;
    while (taken.has(row)) {
      row += 1;
    }
    placed.push({ step, row });
  }
  return placed;
}

function overlap(left: StepRow, right: StepRow): boolean {
  const [start, end] = [Math.max(left.start_us, right.start_us), Math.min(ending(left), ending(right))];
  return end - start > rounding;
}

function ending({ start_us, us }: StepRow): number {
  return start_us + us;
}

export const stages = ["Dynamo", "AOTAutograd", "Inductor", "Compilers and caches", "Other"] as const;
export type Stage = (typeof stages)[number];

/** Patterns of torch's names; the first match counts. */
const marks: readonly (readonly [Stage, RegExp])[] = [
  [
    "Compilers and caches",
    /triton|async_compile|codecache|PyCodeCache|load_by_key|compile_file|cpp_builder|g\+\+/i,
  ],
  ["AOTAutograd", /aot|partition|functionali|autograd/i],
  [
    "Inductor",
    /inductor|compile_fx|fx_graph|fx_codegen|_grad_pass|joint_graph|GraphLowering|Scheduler|code_?gen/i,
  ],
  [
    "Dynamo",
    /dynamo|entire_frame|compile_attempt|bytecode|_compile|guard|symbolic|OutputGraph|backend_compile/i,
  ],
];

/** The microseconds of each stage. Only the innermost steps count, so that no time counts twice. */
export function stageTimes(boxes: readonly FlameBox[]): ReadonlyMap<Stage, number> {
  const edges = boxes.flatMap(({ step }) => [step.start_us, ending(step)]);
  const times = [...new Set(edges)].toSorted((left, right) => left - right);
  const found = new Map<Stage, number>();
  for (const [index, start] of times.entries()) {
    const end = times[index + 1] ?? start;
    const middle = (start + end) / 2;
    const running = boxes.filter(({ step }) => step.start_us < middle && middle < ending(step));
    const inmost = running.reduce<FlameBox | null>(
      (deepest, box) => (deepest === null || box.row > deepest.row ? box : deepest),
      null,
    );
    if (inmost !== null) {
      const stage = stageOf(inmost.step);
      found.set(stage, (found.get(stage) ?? 0) + end - start);
    }
  }
  return found;
}

export function stageOf({ name }: StepRow): Stage {
  return marks.find(([, mark]) => mark.test(name))?.[0] ?? "Other";
}
