/**
 * The limits of a roofline: memory bandwidth up to the ridge, and the rate of each dtype after it. Does not use the DOM.
 *
 * Invariant: both axes are logarithmic, so a kernel without operations is not a point; it is counted instead.
 */

import type { Roofline, RooflinePoint } from "../../src/messages/page_types";

export interface Range {
  readonly start: number;
  readonly end: number;
}

export function shownPoints({ points }: Roofline): readonly RooflinePoint[] {
  return points.filter(({ intensity, tflops }) => intensity > 0 && tflops > 0);
}

/** TFLOP/s that the memory bandwidth allows at `intensity` FLOP per byte. */
export function memoryLimit({ bandwidth_gbs }: Roofline, intensity: number): number {
  return (bandwidth_gbs * intensity) / 1000;
}

/** FLOP per byte from which `tflops` is the limit. */
export function ridge({ bandwidth_gbs }: Roofline, tflops: number): number {
  return (tflops * 1000) / bandwidth_gbs;
}

export interface Ceiling {
  readonly dtypes: readonly string[];
  readonly tflops: number;
}

/** The compute limits, highest first. Dtypes with the same rate share one. */
export function ceilings({ peaks }: Roofline): readonly Ceiling[] {
  const found = new Map<number, string[]>();
  for (const { dtype, tflops } of peaks) {
    found.set(tflops, [...(found.get(tflops) ?? []), dtype]);
  }
  return [...found]
    .map(([tflops, dtypes]) => ({ dtypes, tflops }))
    .toSorted((left, right) => right.tflops - left.tflops);
}

/** The range of full decades around all points and ridges. */
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
