"""Small Excel workbooks, as other programs write them."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
STYLES = (
    f'<styleSheet xmlns="{MAIN}"><numFmts count="1"><numFmt numFmtId="164" '
    'formatCode="yyyy\\-mm\\-dd hh:mm"/></numFmts><cellXfs count="3"><xf numFmtId="0"/>'
    '<xf numFmtId="14"/><xf numFmtId="164"/></cellXfs></styleSheet>'
)


def _write(path: Path, rows: Sequence[Sequence[str]], *, prolog: str = "") -> Path:
    """Write rows of cells; a cell is a text, or XML of a cell that starts with `<c`.

    An empty text leaves the cell out, as programs do.
    """
    shared: list[str] = []
    lines: list[str] = []
    for number, row in enumerate(rows, start=1):
        cells: list[str] = []
        for index, cell in enumerate(row):
            reference = f'r="{chr(ord("A") + index)}{number}"'
            if cell.startswith("<c"):
                cells.append(cell.replace("<c", f"<c {reference}", 1))
            elif cell:
                shared.append(cell)
                cells.append(f'<c {reference} t="s"><v>{len(shared) - 1}</v></c>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    texts = "".join(f"<si><t>{escape(text)}</t></si>" for text in shared)
    files = {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
        '<sheet name="A" sheetId="1" r:id="rId1"/><sheet name="B" sheetId="2" r:id="rId2"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">'
        '<Relationship Id="rId2" Target="worksheets/sheet2.xml"/>'
        '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'{prolog}<worksheet xmlns="{MAIN}"><sheetData>'
        f"{''.join(lines)}</sheetData></worksheet>",
        "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{MAIN}"><sheetData/></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{texts}</sst>',
        "xl/styles.xml": STYLES,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def write_workbook() -> Any:
    """Writes rows of cells to a path."""
    return _write
