/**
 * Playwright's `expect`, with cheaper waits for what is not visible yet.
 *
 * Each time that Playwright's own looks in vain for an element, it describes the whole page for a message that only the
 * last try shows: in a workbench, a fifth of all that the page computes.
 */

import { expect as plain } from "@playwright/test";

export const expect = plain.extend({
  async toBeVisible(locator, options = {}) {
    if (this.isNot) {
      await plain(locator).not.toBeVisible(options);
      return { pass: false };
    }
    const timeout = options.timeout ?? this.timeout;
    try {
      await locator.waitFor({ state: "visible", timeout });
      return { pass: true };
    } catch {
      const failure = await plain(locator)
        .toBeVisible({ timeout: 1 })
        .catch((error) => error);
      const message = () => failure.message.replace(/(Timeout: +)1ms/, `$1${timeout}ms`);
      return { pass: failure === undefined, message };
    }
  },
});
