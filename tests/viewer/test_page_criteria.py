"""Criteria of rows, scales, faults and headings in a real browser, from a server and from a file."""

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
    """Choose the next verdict for each criterion in turn."""

    async def judge(self, to_grade, rubric, query=None):
        number = int(to_grade.split()[-1])
        verdicts = [c.choices[(number + index) % len(c.choices)] for index, c in enumerate(rubric)]
        return [
            Score(c.values[verdict], "", verdict)
            for c, verdict in zip(rubric, verdicts, strict=True)
        ]


def make_row_rubric(number):
    """Return criteria whose names differ only beyond the length limit, and whose weights differ between rows."""
    return [
        {"requirement": f"{STEM} chapter {number % 2}", "weight": 1 + number % 3},
        {"requirement": "Is polite", "tags": ["tone"]},
        {"requirement": "Invents facts", "weight": -1},
    ]


ROWS = [
    {"id": f"q{n}", "prompt": "Why?", "completion": f"Answer {n}", "rubric": make_row_rubric(n)}
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
    folders = [tmp_path_factory.mktemp("runs") / name for name in ("own", "scale")]
    asyncio.run(score_rows(None, ROWS, folder=folders[0], judge=Judge()))
    data = [{name: row[name] for name in ("id", "completion")} for row in ROWS]
    asyncio.run(score_rows(SCALE, data, folder=folders[1], judge=Judge()))
    return folders


@pytest.fixture(scope="module", params=["served", "in a file"])
def addresses(request, serve, folders, tmp_path_factory):
    """Return the URL of each run."""
    if request.param == "served":
        return {folder.name: serve(folder) for folder in folders}
    folder_of_pages = tmp_path_factory.mktemp("pages")
    for folder in folders:
        with (folder_of_pages / f"{folder.name}.html").open("w") as file:
            write_report([folder], file)
    return {folder.name: (folder_of_pages / f"{folder.name}.html").as_uri() for folder in folders}


def test_every_row_shows_the_verdicts_on_its_own_criteria(open_page, addresses):
    """Three for each row; a tick is good, which for a fault means that it was avoided."""
    page = open_page(addresses["own"])
    page.get_by_role("link", name="Rows").click()
    expect(page.locator("table.rows tbody tr .dots").first.locator(".dot")).to_have_count(3)
    # The verdicts of the first row are UNMET, MET and, for the fault, UNMET.
    signs = page.locator("table.rows tbody tr .dots").first.locator(".dot > [aria-hidden]")
    expect(signs).to_have_text(["✗", "✓", "✓"])


def test_the_verdict_column_shows_twelve_verdicts_and_the_number_of_others(open_page, addresses):
    """Rows may have dozens of criteria."""
    page = open_page(addresses["own"])
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


def test_filters_find_as_many_rows_as_the_summary_counts(open_page, addresses, folders):
    """Also for criteria whose names differ only beyond the length limit."""
    criteria = Run.open(folders[0]).summary().criteria
    assert list(criteria) == [
        f"{STEM} chapter 0",
        "is_polite",
        "invents_facts",
        f"{STEM} chapter 1",
    ]
    assert (criteria["is_polite"].weight, criteria[f"{STEM} chapter 0"].weight) == (1.0, None)
    page = open_page(addresses["own"])
    group = page.get_by_role("group", name=f"{STEM} chapter 1")
    expect(group).to_contain_text("weight varies")
    expect(group.locator(".badge").first).to_have_text("judged")
    group.get_by_role("link", name=re.compile("^met ")).click()
    count = criteria[f"{STEM} chapter 1"].met
    expect(page.locator(".total")).to_have_text(f"{count} of 20 rows")
    page.locator("#filter").fill('criterion:"is_polite" verdict:UNMET')
    expect(page.locator(".total")).to_have_text(f"{criteria['is_polite'].unmet} of 20 rows")
    page.locator("#filter").fill("tag:tone")
    expect(page.locator(".total")).to_have_text("20 of 20 rows")


def test_a_scale_is_shown_with_the_share_of_each_level(open_page, addresses):
    """Seven, seven and six of twenty, each with a link to its rows."""
    page = open_page(addresses["scale"])
    quality = page.get_by_role("group", name="quality")
    expect(quality.locator(".share-words > *")).to_have_text(
        ["poor 35 %", "fair 35 %", "good 30 %"]
    )
    quality.get_by_role("link", name="fair 35 %").click()
    expect(page.locator(".total")).to_have_text("7 of 20 rows")


def test_a_fault_is_shown_as_happened_or_avoided(open_page, addresses):
    """With a legend; filters use the verdicts of the run."""
    page = open_page(addresses["scale"])
    fault = page.get_by_role("group", name="invents")
    expect(fault.locator(".share-words > *")).to_have_text(["happened 50 %", "avoided 50 %"])
    expect(page.locator("main")).to_contain_text("happened is bad, avoided is good")
    fault.get_by_role("link", name="avoided 50 %").click()
    expect(page.locator(".total")).to_have_text("10 of 20 rows")


def test_no_heading_is_clipped(open_page, addresses):
    """A long name takes up to three lines, and is fully visible."""
    page = open_page(addresses["scale"])
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
def test_an_unknown_address_shows_an_error(open_page, addresses, hash, words):
    """It does not show the start page."""
    page = open_page(addresses["own"])
    if "ID" in hash:
        href = page.get_by_role("link", name="Rows").get_attribute("href")
        hash = hash.replace("ID", href.split("/")[2])
    page.evaluate("(hash) => { location.hash = hash; }", hash)
    expect(page.get_by_role("alert")).to_contain_text(words)
    # The browser logs every response of 404, which is expected here.
    page.problems[:] = [problem for problem in page.problems if "404" not in problem]
