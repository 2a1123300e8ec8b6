"""The page as one file, opened from disk with no network."""

import json

import pytest
from playwright.sync_api import expect

from assay.trust import read_labels
from assay.viewer.page_export import write_report

LARGEST = 1_000_000
"""Bytes of a report without its data."""


@pytest.fixture(scope="module")
def report(tmp_path_factory, run_folder, other_folder):
    path = tmp_path_factory.mktemp("report") / "page.html"
    with path.open("w", encoding="utf-8") as file:
        write_report([run_folder, other_folder], file)
    return path


@pytest.fixture
def context_options():
    return {"offline": True, "accept_downloads": True}


@pytest.fixture
def open_report(page, browser_thread, report):
    asked: list[str] = []
    browser_thread.submit(page.on, "request", lambda request: asked.append(request.url)).result()

    def opened(view=""):
        page.goto(f"{report.as_uri()}{view}")
        page.wait_for_selector("main[aria-busy=false]")
        return page

    yield opened
    assert [
        one for one in asked if not one.startswith(("file:", "data:image/svg+xml,", "blob:"))
    ] == []


def first_run(page):
    page.get_by_role("link", name="manners", exact=True).first.click()
    expect(page.locator("h1")).to_have_text("Overview of manners")


def test_a_report_opens_from_disk_without_a_network(open_report):
    page = open_report()
    first_run(page)
    expect(page.get_by_role("alert", name="Errors")).to_contain_text("2 rollouts of 40")
    expect(page.locator(".plot canvas")).to_be_visible()


def test_a_report_filters_columns_and_texts(open_report):
    """28 are not polite; ten say thank you, which stands only in the packed rows."""
    page = open_report()
    first_run(page)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("#filter").fill("criterion:polite verdict:UNMET")
    expect(page.locator(".total")).to_have_text("28 of 40 rows")
    page.locator("#filter").fill('"thank you"')
    expect(page.locator(".total")).to_have_text("10 of 40 rows")
    page.get_by_role("button", name="Score", exact=True).click()
    page.locator("#filter").fill("")
    expect(page.locator("table.rows tbody a").first).to_have_text("2")


def test_a_report_shows_rollouts_groups_and_comparisons(open_report):
    page = open_report()
    first_run(page)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    expect(page.locator(".said mark").first).to_have_text("could you please")
    page.get_by_role("link", name="Same prompt").click()
    expect(page.locator(".advantage").first).to_contain_text("advantage +1.000")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text("The score rose by")


def test_labels_given_in_a_report_are_taken_out_as_a_file(open_report, tmp_path, run_folder):
    page = open_report()
    first_run(page)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    page.get_by_role("button", name="for polite: overrule").click()
    page.get_by_role("radio", name="UNMET", exact=True).check()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Save label").click()
    expect(page.locator(".labels")).to_contain_text("UNMET by Ann")
    with page.expect_download() as taken:
        page.get_by_role("button", name="Export labels").click()
    taken.value.save_as(tmp_path / "labels.jsonl")
    [label] = read_labels(tmp_path / "labels.jsonl")
    assert (label.example, label.criterion, label.verdict, label.rater) == (
        "e0",
        "polite",
        "UNMET",
        "Ann",
    )
    about = json.loads((run_folder / "run.json").read_text())
    assert label.guideline == about["rubric"]["criteria"][0]["hash"]


def test_a_report_runs_nothing_but_its_own_script(open_report):
    page = open_report()
    page.evaluate(
        "() => { const one = document.createElement('div'); one.innerHTML = '<img src=data:, onerror=window.pwned=1>'; document.body.append(one); }"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned ?? 0") == 0
    page.troubles.clear()


def test_a_report_is_small_without_its_data(tmp_path, make_run):
    with (tmp_path / "page.html").open("w", encoding="utf-8") as file:
        write_report([make_run(tmp_path / "run", [{"completion": "No."}])], file)
    assert (tmp_path / "page.html").stat().st_size < LARGEST


def test_writing_tells_how_far_it_is(run_folder, tmp_path):
    """Up to all of the rows."""
    told = []
    with (tmp_path / "page.html").open("w", encoding="utf-8") as file:
        assert write_report([run_folder], file, told.append) == 40
    assert (told[-1].done, told[-1].total) == (40, 40)
