/**
 * Mocha's results on the terminal, and as JUnit in the file `output`.
 *
 * Invariant: the file is complete before the run ends, because the extension host exits immediately afterwards.
 */

const { reporters } = require("mocha");

module.exports = class SpecAndJUnit extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    this.file = new reporters.XUnit(runner, options);
  }

  done(failures, finished) {
    this.file.done(failures, finished);
  }
};
