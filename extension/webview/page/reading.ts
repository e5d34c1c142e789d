/**
 * What a reader has opened, focused and scrolled to on a page, across a redraw.
 *
 * Invariant: a page without the focus takes it from nobody.
 */

/** Remembers open sections, focus and scrolling, and returns a function that restores them after a redraw. */
export function keepReading(main: HTMLElement): () => void {
  const isOpen = new Set(
    [...main.querySelectorAll<HTMLDetailsElement>("details[open]")].map(({ dataset }) => dataset["key"]),
  );
  // A page without the focus must not take it from the editor in which the user types.
  const [focused, number] = focusOf(document.hasFocus() ? document.activeElement : null);
  const top = main.scrollTop;
  const scrolled = [...main.querySelectorAll<HTMLElement>(".scroll")]
    .filter((one) => one.scrollTop > 0 || one.scrollLeft > 0)
    .map((one) => ({ at: focusOf(one), top: one.scrollTop, left: one.scrollLeft }));
  return () => {
    for (const one of main.querySelectorAll("details")) {
      one.open = isOpen.has(one.dataset["key"]);
    }
    for (const { at, top: down, left } of scrolled) {
      named(at[0])[at[1]]?.scrollTo({ top: down, left });
    }
    named(focused)[number]?.focus({ preventScroll: true });
    main.scrollTop = top;
  };
}

/** Identifies an element across redraws: its name, and its index among elements with that name. */
function focusOf(element: Element | null): readonly [string, number] {
  const name = element === null ? "" : nameOf(element);
  return [name, element === null ? -1 : named(name).indexOf(element as HTMLElement)];
}

function named(name: string): readonly HTMLElement[] {
  const all = [...document.querySelectorAll<HTMLElement>("[aria-label], [data-key]")];
  return name === "" ? [] : all.filter((one) => nameOf(one) === name);
}

/** Charts have a key, because their labels contain times. */
function nameOf(element: Element): string {
  return element.getAttribute("data-key") ?? element.getAttribute("aria-label") ?? "";
}
