// Tables sort by the column whose heading is pressed: numbers by their leading number, words by the alphabet.
for (const table of document.querySelectorAll("table:has(thead)")) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const cell = (row) => row.cells[column].textContent;
    const number = (row) => { const found = parseFloat(cell(row)); return Number.isNaN(found) ? -Infinity : found; };
    const compare = head.classList.contains("number")
      ? (a, b) => number(a) - number(b)
      : (a, b) => cell(a).localeCompare(cell(b), "en", { numeric: true });
    const rows = [...body.rows].sort((a, b) => down ? compare(b, a) : compare(a, b));
    body.append(...rows);
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }));
}
