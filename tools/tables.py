"""Tables. In: cells. Out: plain text with aligned columns, or Markdown. Assumes: equal lengths."""

from __future__ import annotations


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as they need; the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    lines = [heading, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def markdown_table(heading: list[str], rows: list[list[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [heading, ["---"] + ["--:"] * (len(heading) - 1), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
