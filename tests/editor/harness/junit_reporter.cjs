/**
 * Mocha's outcome twice: in words on the terminal, and as JUnit in the file that `output` names.
 *
 * Invariant: the file is whole before the run counts as over, for the extension host ends right after it.
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
