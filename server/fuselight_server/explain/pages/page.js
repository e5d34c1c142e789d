// Search and sort of the table of rows. Everything that it shows is in the page already.

const table = document.getElementById("rows");
const search = document.getElementById("search");
const jobChoice = document.getElementById("job");
const statusChoice = document.getElementById("status");
const shown = document.getElementById("shown");

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    const fits =
      words.every((word) => text.includes(word)) &&
      (jobChoice.value === "" || row.dataset.job === jobChoice.value) &&
      (statusChoice.value === "" || row.dataset.status === statusChoice.value);
    row.hidden = !fits;
    count += fits ? 1 : 0;
  }
  shown.textContent = `${count} of ${table.tBodies[0].rows.length} rows`;
}

// Numbers by size, texts by the alphabet; a row without a value comes last in both directions.
function compare(one, other, direction) {
  const left = one.dataset.sort ?? one.textContent;
  const right = other.dataset.sort ?? other.textContent;
  if (left === "" || right === "") {
    return (left === "" ? 1 : 0) - (right === "" ? 1 : 0);
  }
  const difference = Number(left) - Number(right);
  return direction * (Number.isNaN(difference) ? left.localeCompare(right) : difference);
}

function sort(column, heading) {
  const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) {
    other.removeAttribute("aria-sort");
  }
  heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => compare(one.cells[column], other.cells[column], direction));
  table.tBodies[0].append(...rows);
}

if (table !== null) {
  for (const control of [search, jobChoice, statusChoice]) {
    control.addEventListener("input", filter);
  }
  for (const [column, heading] of [...table.tHead.rows[0].cells].entries()) {
    heading.querySelector("button").addEventListener("click", () => sort(column, heading));
  }
  filter();
}
