"""Tables for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aten_backend.comparison.records import Comparison
from aten_backend.comparison.sheets import Sheet, is_text


def show(console: Console, sheets: Sequence[Sheet]) -> None:
    """Print to the terminal."""
    for sheet in sheets:
        if sheet.rows:
            console.print(_table(sheet))
        for note in sheet.notes:
            console.print(escape(note), style="dim", highlight=False)
        console.print()


def _table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left")
    for number, heading in enumerate(sheet.headings):
        table.add_column(heading, justify="left" if is_text(sheet, number) else "right", overflow="fold")
    for row in sheet.rows:
        # Names and messages may look like rich's markup.
        table.add_row(*map(escape, row))
    return table


def markdown(title: str, command: str, comparison: Comparison, sheets: Sequence[Sheet]) -> str:
    """The same tables as a page that says by which command and where it was made."""
    parts = [f"# {title}", f"Made by `{command}`.", origin(comparison)]
    for sheet in sheets:
        parts.append(f"## {sheet.title}")
        parts += sheet.notes
        if sheet.rows:
            parts.append(markdown_table(sheet))
    return "\n\n".join(parts) + "\n"


def origin(comparison: Comparison) -> str:
    """Where and when it was made, in a line."""
    machine, versions = comparison.machine, comparison.versions
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{machine.get('processor')}, {machine.get('cores')} cores, {comparison.threads.get('intra_op')} threads, "
        f"{machine.get('vector_instructions')}. {packages}. {comparison.created}."
    )


def markdown_table(sheet: Sheet) -> str:
    """A table in Markdown."""
    rule = ["---" if is_text(sheet, number) else "---:" for number in range(len(sheet.headings))]
    lines = [sheet.headings, rule, *sheet.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
