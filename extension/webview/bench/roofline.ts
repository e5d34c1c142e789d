/**
 * The limits of a roofline, without a window: what memory allows up to the ridge, and what each rate allows from there.
 *
 * Invariant: both axes are logarithmic, so what has no operations is no point of it; it is counted instead.
 */

import type { Roofline, RooflinePoint } from "../../src/bench/messages";

export interface Range {
  readonly start: number;
  readonly end: number;
}

export function shownPoints({ points }: Roofline): readonly RooflinePoint[] {
  return points.filter(({ intensity, tflops }) => intensity > 0 && tflops > 0);
}

/** TFLOP/s that the memory's bandwidth allows at `intensity` operations by byte. */
export function memoryLimit({ bandwidth_gbs }: Roofline, intensity: number): number {
  return (bandwidth_gbs * intensity) / 1000;
}

/** Operations by byte from which on `tflops` is the limit. */
export function ridge({ bandwidth_gbs }: Roofline, tflops: number): number {
  return (tflops * 1000) / bandwidth_gbs;
}

export interface Ceiling {
  readonly dtypes: readonly string[];
  readonly tflops: number;
}

/** Data types with the same rate are one limit; the highest first. */
export function ceilings({ peaks }: Roofline): readonly Ceiling[] {
  const found = new Map<number, string[]>();
  for (const { dtype, tflops } of peaks) {
    found.set(tflops, [...(found.get(tflops) ?? []), dtype]);
  }
  return [...found]
    .map(([tflops, dtypes]) => ({ dtypes, tflops }))
    .toSorted((left, right) => right.tflops - left.tflops);
}

/** Whole decades around every point and every ridge. */
export function intensities(roofline: Roofline): Range {
  const points = shownPoints(roofline).map(({ intensity }) => intensity);
  const ridges = roofline.peaks.map(({ tflops }) => ridge(roofline, tflops));
  return decades([...points, ...ridges]);
}

export function rates(roofline: Roofline): Range {
  const points = shownPoints(roofline).map(({ tflops }) => tflops);
  return decades([...points, ...roofline.peaks.map(({ tflops }) => tflops)]);
}

function decades(values: readonly number[]): Range {
  const there = values.filter((value) => value > 0 && Number.isFinite(value));
  const [least, most] = there.length > 0 ? [Math.min(...there), Math.max(...there)] : [1, 10];
  const [start, end] = [10 ** Math.floor(Math.log10(least) - 0.1), 10 ** Math.ceil(Math.log10(most) + 0.1)];
  return { start, end };
}
