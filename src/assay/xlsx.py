"""Read the first sheet of an Excel workbook (`.xlsx`) as rows of texts.

A workbook is a ZIP file of XML files. Only what a table needs is read: values, and which numbers
are dates. Formulas have the value that was computed when the file was saved.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Final
from xml.etree import ElementTree

_MAX_BYTES: Final = 2**29  # of one XML file, unpacked
# Formats of numbers that are dates or times, by their fixed ids.
_DATE_FORMATS: Final = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_LITERALS: Final = re.compile(
    r'"[^"]*"|\\.|\[[^\]]*\]'
)  # parts of a format that are shown as they are
_REFERENCE: Final = re.compile(r"([A-Z]{1,3})(\d+)")
_MAX_COLUMNS: Final = 16_384


class WorkbookError(Exception):
    """The file is not a workbook that can be read; the message says why."""


def read_first_sheet(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row of the first sheet, with the number of the row, from 1.

    Whole numbers have no decimal places, dates are written as `2026-01-31`, and empty cells are
    empty texts.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            workbook = _Workbook(archive)
            with workbook.open(workbook.find_first_sheet()) as file:
                yield from workbook.read_rows(file)
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, ValueError, OSError) as error:
        raise WorkbookError(f"it cannot be read as a workbook: {error}") from None


class _Workbook:
    """The parts of a workbook that the cells of a sheet refer to."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._texts = self._read_shared_texts()
        self._date_styles = self._find_date_styles()
        self._first_day = datetime(1899, 12, 30)
        for properties in self._iterate("xl/workbook.xml", "workbookPr"):
            if properties.get("date1904") in ("1", "true"):
                self._first_day = datetime(1904, 1, 1)

    def open(self, name: str) -> IO[bytes]:
        """Open one XML file; raise `WorkbookError` if it is too large or declares entities."""
        if self._archive.getinfo(name).file_size > _MAX_BYTES:
            raise WorkbookError(
                f"{name} in it is larger than {_MAX_BYTES // 2**20} MiB: save it as .csv"
            )
        with self._archive.open(name) as file:
            if b"<!DOCTYPE" in file.read(4096):
                raise WorkbookError(f"{name} in it declares a document type: save it again")
        return self._archive.open(name)

    def find_first_sheet(self) -> str:
        """Return the name of the XML file of the first sheet."""
        targets: dict[str, str] = {}
        for relation in self._iterate("xl/_rels/workbook.xml.rels", "Relationship"):
            targets[relation.get("Id", "")] = relation.get("Target", "")
        for sheet in self._iterate("xl/workbook.xml", "sheet"):
            for attribute, value in sheet.items():
                if attribute.endswith("}id") and value in targets:
                    # Relative to the folder `xl`, or absolute.
                    return posixpath.normpath(posixpath.join("/xl", targets[value])).lstrip("/")
        raise WorkbookError("it has no sheet")

    def read_rows(self, file: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of the rows of a sheet."""
        number = 0
        for _, element in ElementTree.iterparse(file):
            if _get_name(element) != "row":
                continue
            number = int(element.get("r") or number + 1)
            cells: list[str] = []
            for cell in element:
                column = _find_column(cell.get("r"), default=len(cells))
                cells += [""] * (column - len(cells))
                cells.append(self._read_cell(cell))
            yield number, cells
            element.clear()  # a large sheet would fill the memory

    def _read_cell(self, cell: ElementTree.Element) -> str:
        """Return the value of a cell as text."""
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _join_texts(cell)
        value = next((part.text or "" for part in cell if _get_name(part) == "v"), "")
        if not value:
            return ""
        if kind == "s":
            return self._texts[int(value)]
        if kind == "b":
            return "true" if value == "1" else "false"
        if kind == "e":
            return ""  # such as #N/A
        if kind != "n":
            return value
        number = float(value)
        if int(cell.get("s", "0")) in self._date_styles:
            return self._write_date(number)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)

    def _write_date(self, days: float) -> str:
        """Return a number of days since the first day as a date, with a time if there is one."""
        try:
            moment = self._first_day + timedelta(seconds=round(days * 86400))
        except OverflowError:
            return repr(days)
        if 0 <= days < 1:
            return moment.time().isoformat()
        if float(days).is_integer():
            return moment.date().isoformat()
        return moment.isoformat(sep=" ")

    def _read_shared_texts(self) -> list[str]:
        if "xl/sharedStrings.xml" not in self._archive.namelist():
            return []
        return [_join_texts(item) for item in self._iterate("xl/sharedStrings.xml", "si")]

    def _find_date_styles(self) -> set[int]:
        """Return the indices of the cell styles that show a number as a date or a time."""
        if "xl/styles.xml" not in self._archive.namelist():
            return set()
        date_formats = set(_DATE_FORMATS)
        for number_format in self._iterate("xl/styles.xml", "numFmt"):
            code = _LITERALS.sub("", number_format.get("formatCode", "")).lower()
            if re.search(r"[ymdhs]", code) and "general" not in code:
                date_formats.add(int(number_format.get("numFmtId", "-1")))
        with self.open("xl/styles.xml") as file:
            root = ElementTree.parse(file).getroot()
        styles: set[int] = set()
        for section in root:
            if _get_name(section) != "cellXfs":
                continue
            for index, style in enumerate(section):
                if int(style.get("numFmtId", "0")) in date_formats:
                    styles.add(index)
        return styles

    def _iterate(self, name: str, tag: str) -> Iterator[ElementTree.Element]:
        """Yield the elements of an XML file that have this tag."""
        with self.open(name) as file:
            for _, element in ElementTree.iterparse(file):
                if _get_name(element) == tag:
                    yield element
                    element.clear()


def _get_name(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace, which differs between programs."""
    return element.tag.rpartition("}")[2]


def _join_texts(element: ElementTree.Element) -> str:
    """Return the text of a cell, whose parts may have different fonts; without reading aids."""
    texts: list[str] = []
    for part in element:
        if _get_name(part) == "rPh":  # how to pronounce the text
            continue
        if _get_name(part) == "t":
            texts.append(part.text or "")
        else:
            texts.append(_join_texts(part))
    return "".join(texts)


def _find_column(reference: str | None, default: int) -> int:
    """Return the index of the column of a cell such as `B7`, from 0."""
    match = _REFERENCE.fullmatch(reference or "")
    if match is None:
        return default
    index = 0
    for letter in match[1]:
        index = 26 * index + ord(letter) - ord("A") + 1
    if not default < index <= _MAX_COLUMNS:
        raise WorkbookError(f"the cell {reference} is not in order: save the file again")
    return index - 1
