"""Man pages from the pages of docs/reference, which `make reference` makes from the help texts of the commands.

    python packaging/man_pages.py FOLDER

The build of the wheel runs this module as a hook: `pip` and `pipx` install the pages, and `man berthmaster` shows them.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CELL: Final = re.compile(r"(?<!\\)\|")
_SUMMARY: Final = "decides where workloads go in a fleet of Kubernetes clusters, and explains why"
_HEADING: Final = {"#": ".SH", "##": ".SH", "###": ".SS"}


def pages() -> dict[str, str]:
    """Return the text of each page by its file name; nothing without the pages of docs/reference."""
    sources = [ROOT / "docs" / "reference.md", *sorted((ROOT / "docs" / "reference").glob("*.md"))]
    named = {"berthmaster" if each.stem == "reference" else f"berthmaster-{each.stem}": each for each in sources}
    return {f"{name}.1": page(name, each.read_text()) for name, each in named.items() if each.exists()}


def page(name: str, markdown: str) -> str:
    """Return a man page, in the macros of man(7).

    Args:
        name: the name of the page.
        markdown: the page of the reference.
    """
    lines = [each for each in markdown.splitlines() if not each.startswith("<!--")]
    text = next((each for each in lines if each and not each.startswith("#")), "")
    text = text.split(". ")[0].rstrip(".") if name != "berthmaster" else _SUMMARY
    title = [
        f'.TH "{name.upper()}" "1"',
        ".nh",
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(text)}",
    ]
    return "\n".join([*title, ".SH DESCRIPTION", *_body(lines[1:])]) + "\n"


def _body(lines: list[str]) -> Iterator[str]:
    code, header = False, list[str]()
    for line in lines:
        if line.startswith("```"):
            code = not code
            yield from (".PP", ".RS 4", ".EX") if code else (".EE", ".RE")
        elif code:
            yield _roff(line, marked=False)
        elif line.startswith("#"):
            level, _, text = line.partition(" ")
            yield f'{_HEADING[level]} "{_roff(text).upper() if level != "###" else _roff(text)}"'
        elif line.startswith("|"):
            cells = [each.strip() for each in _CELL.split(line.removeprefix("|").removesuffix("|"))]
            if not header:
                header = cells
            elif not set(line) <= set("|-"):
                yield from (".TP", _roff(cells[0]), _meaning(dict(zip(header, cells, strict=True))))
        else:
            header = []
            yield _roff(line) if line else ".PP"


def _meaning(row: Mapping[str, str]) -> str:
    """Return what a row of a table says about its first cell. The guides of the site are no man pages."""
    *_, last = [text for column, text in row.items() if column != "Guide"]
    default = row.get("Default")
    return _roff(f"{last} Default: {default}." if default else last) or "\\&"


def _roff(text: str, *, marked: bool = True) -> str:
    """Return text in which roff reads no command. Code is bold."""
    if marked:
        text = _LINK.sub(r"\1", text).replace("\\|", "|").replace("\\*", "*")
    text = text.replace("\\", "\\e").replace("-", "\\-")
    if marked:
        text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def main() -> int:
    """Write the pages to a folder.

    Returns:
        The exit code.
    """
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
