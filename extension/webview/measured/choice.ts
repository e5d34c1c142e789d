/** A labeled drop-down list. */

import { element } from "../page/dom";

export interface Option {
  readonly id: string;
  readonly label: string;
}

let choices = 0;

export function choice(
  name: string,
  options: readonly Option[],
  chosen: string | null,
  choose: (id: string) => void,
): HTMLElement {
  choices += 1;
  const id = `choice-${choices}`;
  const select = element(
    "select",
    { id, "aria-label": name },
    ...options.map((option) =>
      element(
        "option",
        { value: option.id, ...(option.id === chosen ? { selected: true } : {}) },
        option.label,
      ),
    ),
  );
  select.addEventListener("change", () => choose(select.value));
  return element("div", { class: "group" }, element("label", { for: id }, name), select);
}
