// Sorts tables by a column and filters their rows by words. The address of the page keeps both.
"use strict";

function keep(name, text) {
  const address = new URL(location.href);
  if (text) address.searchParams.set(name, text);
  else address.searchParams.delete(name);
  history.replaceState(null, "", address);
}

function cellValue(row, column) {
  const cell = row.cells[column];
  if (!cell) return "";
  const text = cell.dataset.value ?? cell.textContent.trim();
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text.toLowerCase();
}

// Missing values come last in both directions.
function compareCells(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === "");
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return sign * (a < b ? -1 : a > b ? 1 : 0);
}

function sortBy(made, column, descending) {
  const body = made.tBodies[0];
  const rows = [...body.rows].map((row) => [cellValue(row, column), row]);
  rows.sort(([a], [b]) => compareCells(a, b, descending ? -1 : 1));
  body.append(...rows.map(([, row]) => row));
  for (const head of made.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  made.tHead.rows[0].cells[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
}

function sortable(made) {
  const kept = new URLSearchParams(location.search).get("order") ?? "";
  for (const head of made.querySelectorAll("th[data-sort]")) {
    const label = head.textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      // The first click sorts numbers in descending order and names in ascending order.
      const numeric = [...made.tBodies[0].rows].some((row) => typeof cellValue(row, head.cellIndex) === "number");
      const before = head.getAttribute("aria-sort");
      const descending = before ? before === "ascending" : numeric;
      sortBy(made, head.cellIndex, descending);
      keep("order", (descending ? "-" : "") + label);
    });
    if (kept.replace(/^-/, "") === label) sortBy(made, head.cellIndex, kept.startsWith("-"));
  }
}

function filtered(input) {
  const made = document.getElementById(input.dataset.filters);
  if (!made) return;
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of made.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  const count = document.getElementById(`${made.id}-count`);
  count.dataset.all ??= count.textContent;
  count.textContent = words.length ? `${shown} of ${count.dataset.all}` : count.dataset.all;
}

for (const made of document.querySelectorAll("table.sortable")) sortable(made);
for (const input of document.querySelectorAll("input[data-filters]")) {
  input.value = new URLSearchParams(location.search).get("filter") ?? "";
  filtered(input);
  input.addEventListener("input", () => {
    filtered(input);
    keep("filter", input.value);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
}
