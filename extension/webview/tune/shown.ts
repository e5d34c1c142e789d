/** What the charts of a search's page show of its data. Does not use the DOM. */

import type { KnobRow, RaceSeries } from "../../src/messages/page_types";

const most = 16;

/** The knobs that apply and have a known ceiling, largest first. */
export function shownKnobs(knobs: readonly KnobRow[]): readonly (KnobRow & { readonly ceiling: number })[] {
  return knobs
    .flatMap((knob) => (knob.ceiling === null || !knob.applies ? [] : [{ ...knob, ceiling: knob.ceiling }]))
    .slice(0, most);
}

/** A round whose moment and time are known. */
export interface Round {
  readonly at: number;
  readonly us: number;
  readonly stage: number;
}

export function roundsOf({ points }: RaceSeries): readonly Round[] {
  return points.flatMap(([at, us, stage]) => (at === null || us === null ? [] : [{ at, us, stage }]));
}

/** The name of each series: its label, or its notation if another candidate has the same label. */
export function namesOf(race: readonly RaceSeries[]): readonly string[] {
  return race.map(({ name, label }) => (race.filter((one) => one.label === label).length > 1 ? name : label));
}

export function seconds(value: number): string {
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })} s`;
}
