"""Criteria that rows bring, scales, faults and headings, in a real browser; from a server and from a file."""

import asyncio
import re

import pytest
from playwright.sync_api import expect

from assay import Autograder, Rubric, Score
from assay.runs import Run, score_rows
from assay.viewer.page_export import write_report

STEM = (
    "Explains in detail how the proposed method compares with the earlier baseline, and says so in"
)


class Judge(Autograder):
    """Takes the choices of each criterion in turn."""

    async def judge(self, to_grade, rubric, query=None):
        number = int(to_grade.split()[-1])
        said = [c.choices[(number + place) % len(c.choices)] for place, c in enumerate(rubric)]
        return [Score(c.values[word], "", word) for c, word in zip(rubric, said, strict=True)]


def own(number):
    """Two that differ only beyond the length of a name, and by their weight from row to row."""
    return [
        {"requirement": f"{STEM} chapter {number % 2}", "weight": 1 + number % 3},
        {"requirement": "Is polite", "tags": ["tone"]},
        {"requirement": "Invents facts", "weight": -1},
    ]


ROWS = [
    {"id": f"q{n}", "prompt": "Why?", "completion": f"Answer {n}", "rubric": own(n)}
    for n in range(20)
]
SCALE = Rubric.from_dict(
    [
        {"name": "quality", "requirement": "Is good", "choices": ["poor", "fair", "good"]},
        {"name": "refers_to_the_relevant_primary_literature_of_it", "requirement": "Refers"},
        {"name": "invents", "requirement": "Invents facts", "weight": -1},
    ]
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    places = [tmp_path_factory.mktemp("runs") / name for name in ("own", "scale")]
    asyncio.run(score_rows(None, ROWS, folder=places[0], judge=Judge()))
    data = [{name: row[name] for name in ("id", "completion")} for row in ROWS]
    asyncio.run(score_rows(SCALE, data, folder=places[1], judge=Judge()))
    return places


@pytest.fixture(scope="module", params=["served", "in a file"])
def addresses(request, serve, folders, tmp_path_factory):
    """The page of either run."""
    if request.param == "served":
        return {folder.name: serve(folder) for folder in folders}
    made = tmp_path_factory.mktemp("pages")
    for folder in folders:
        with (made / f"{folder.name}.html").open("w") as file:
            write_report([folder], file)
    return {folder.name: (made / f"{folder.name}.html").as_uri() for folder in folders}


def test_every_row_shows_the_verdicts_on_its_own_criteria(look, addresses):
    """Three a row; a tick is good news, which for a fault is that it is not there."""
    page = look(addresses["own"])
    page.get_by_role("link", name="Rows").click()
    expect(page.locator("table.rows tbody tr .dots").first.locator(".dot")).to_have_count(3)
    # The first row: 0, 1 and 2 are UNMET, MET and, of the fault, UNMET.
    signs = page.locator("table.rows tbody tr .dots").first.locator(".dot > [aria-hidden]")
    expect(signs).to_have_text(["✗", "✓", "✓"])


def test_of_many_verdicts_the_first_are_shown_with_the_number_of_the_others(look, addresses):
    """Rows may bring dozens of criteria; the column shows twelve."""
    page = look(addresses["own"])
    text = page.evaluate(
        """() => {
          const names = Array.from({ length: 15 }, (_, index) => `criterion ${index}`);
          const criteria = names.map((name) => ({ name, own: true }));
          const column = Assay.columns.columnsOf(criteria, []).find(({ key }) => key === "verdicts");
          const cell = column.cell({ verdicts: Object.fromEntries(names.map((name) => [name, "MET"])) });
          return [cell.querySelectorAll(".dot").length, cell.querySelector(".note").textContent];
        }"""
    )
    assert text == [12, " +3"]


def test_a_filter_finds_as_many_rows_as_the_summary_says(look, addresses, folders):
    """Of criteria whose names would be cut off at the same place, each its own."""
    found = Run.open(folders[0]).summary().criteria
    assert list(found) == [f"{STEM} chapter 0", "is_polite", "invents_facts", f"{STEM} chapter 1"]
    assert (found["is_polite"].weight, found[f"{STEM} chapter 0"].weight) == (1.0, None)
    page = look(addresses["own"])
    group = page.get_by_role("group", name=f"{STEM} chapter 1")
    expect(group).to_contain_text("weight varies")
    expect(group.locator(".badge").first).to_have_text("judged")
    group.get_by_role("link", name=re.compile("^met ")).click()
    count = found[f"{STEM} chapter 1"].met
    expect(page.locator(".total")).to_have_text(f"{count} of 20 rows")
    page.locator("#filter").fill('criterion:"is_polite" verdict:UNMET')
    expect(page.locator(".total")).to_have_text(f"{found['is_polite'].unmet} of 20 rows")
    page.locator("#filter").fill("tag:tone")
    expect(page.locator(".total")).to_have_text("20 of 20 rows")


def test_a_scale_is_shown_level_by_level(look, addresses):
    """Seven, seven and six of twenty, each a link to its rows."""
    page = look(addresses["scale"])
    quality = page.get_by_role("group", name="quality")
    expect(quality.locator(".share-words > *")).to_have_text(
        ["poor 35 %", "fair 35 %", "good 30 %"]
    )
    quality.get_by_role("link", name="fair 35 %").click()
    expect(page.locator(".total")).to_have_text("7 of 20 rows")


def test_a_fault_happened_or_was_avoided(look, addresses):
    """In words, with a legend; filters keep the verdicts of the run."""
    page = look(addresses["scale"])
    fault = page.get_by_role("group", name="invents")
    expect(fault.locator(".share-words > *")).to_have_text(["happened 50 %", "avoided 50 %"])
    expect(page.locator("main")).to_contain_text("happened is bad, avoided is good")
    fault.get_by_role("link", name="avoided 50 %").click()
    expect(page.locator(".total")).to_have_text("10 of 20 rows")


def test_no_heading_is_clipped(look, addresses):
    """A long name stands on up to three lines, and all of it can be read."""
    page = look(addresses["scale"])
    page.get_by_role("link", name="Rows").click()
    expect(page.locator("table.rows tbody tr .dot").first).to_be_visible()
    clipped = page.evaluate(
        """[...document.querySelectorAll("table.rows thead th")].filter((cell) =>
            [cell, ...cell.querySelectorAll("*")].some((part) =>
                part.scrollHeight > part.clientHeight + 1 && getComputedStyle(part).display !== "inline"))
            .map((cell) => cell.textContent)"""
    )
    assert clipped == []


@pytest.mark.parametrize(
    ("hash", "words"),
    [
        ("#/run/nowhere", "there is no run nowhere here"),
        ("#/runs", "there is no page runs here"),
        ("#/run/ID/answers", "a run has no page answers"),
        ("#/run/ID/row/999", "there is no row 999"),
    ],
)
def test_an_address_that_leads_nowhere_says_so(look, addresses, hash, words):
    """And does not pass for the start."""
    page = look(addresses["own"])
    if "ID" in hash:
        href = page.get_by_role("link", name="Rows").get_attribute("href")
        hash = hash.replace("ID", href.split("/")[2])
    page.evaluate("(hash) => { location.hash = hash; }", hash)
    expect(page.get_by_role("alert")).to_contain_text(words)
    # A browser notes every answer of 404, and this one was asked for.
    page.troubles[:] = [trouble for trouble in page.troubles if "404" not in trouble]
