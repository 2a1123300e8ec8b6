"""The page as a single file, opened from disk without a network."""

import json

import pytest
from playwright.sync_api import expect

from assay.cli import main
from assay.runs import Run
from assay.trust import hash_text, read_labels, read_run_labels
from assay.viewer.page_export import write_report
from assay.viewer.viewed_runs import ViewedRuns

MAX_SIZE = 1_000_000
"""The maximum size in bytes of a report without its data."""


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
    requested_urls: list[str] = []
    browser_thread.submit(
        page.on, "request", lambda request: requested_urls.append(request.url)
    ).result()

    def open_view(view=""):
        page.goto(f"{report.as_uri()}{view}")
        page.wait_for_selector("main[aria-busy=false]")
        return page

    yield open_view
    assert [
        url
        for url in requested_urls
        if not url.startswith(("file:", "data:image/svg+xml,", "blob:"))
    ] == []


def open_first_run(page):
    page.get_by_role("link", name="manners", exact=True).first.click()
    expect(page.locator("h1")).to_have_text("Overview of manners")


def test_a_report_opens_from_disk_without_a_network(open_report):
    page = open_report()
    open_first_run(page)
    expect(page.get_by_role("alert", name="Errors")).to_contain_text("2 rollouts of 40")
    expect(page.locator(".plot canvas")).to_be_visible()


def test_a_report_filters_columns_and_texts(open_report):
    """28 are not polite; ten say thank you, which is only in the compressed rows."""
    page = open_report()
    open_first_run(page)
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
    open_first_run(page)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    expect(page.locator(".said mark").first).to_have_text("could you please")
    page.get_by_role("link", name="Same prompt").click()
    expect(page.locator(".advantage").first).to_contain_text("advantage +1.000")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text("is better")


def give_label(page, verdict, name):
    page.get_by_role("button", name="for polite: overrule").click()
    page.get_by_role("radio", name=verdict, exact=True).check()
    page.get_by_label("Your name").fill(name)
    page.get_by_role("button", name="Save label").click()
    expect(page.locator(".labels")).to_contain_text(f"{verdict} by {name}")


def export_labels(page, folder):
    """Save the exported labels in a folder, under the name that the browser suggests."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Export labels").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_labels_made_in_a_report_can_be_exported(open_report, tmp_path, run_folder):
    page = open_report()
    open_first_run(page)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    give_label(page, "UNMET", "Ann")
    [label] = read_labels(export_labels(page, tmp_path))
    assert (label.example, label.criterion, label.verdict, label.rater) == (
        "e0",
        "polite",
        "UNMET",
        "Ann",
    )
    run = Run.open(run_folder)
    row = run.row("e0")
    assert label.guideline == run.about.rubric.criteria[0].question
    assert label.text_hash == hash_text(row.fields["prompt"], row.fields["completion"])


@pytest.fixture
def labelled_run(tmp_path, make_run):
    """A run of four rollouts, three of which bob labelled, with a report next to it."""
    folder = make_run(
        tmp_path / "labelled",
        [{"example_id": f"e{n}", "prompt": f"Ask {n}.", "completion": "No."} for n in range(4)],
    )
    lines = [
        {"example": f"e{n}", "criterion": "polite", "verdict": "MET", "rater": "bob"}
        for n in range(3)
    ]
    (folder / "labels.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with (tmp_path / "labelled.html").open("w", encoding="utf-8") as file:
        write_report([folder], file)
    return folder


def open_first_row(page, run):
    page.goto(f"{run.with_suffix('.html').as_uri()}#/")
    page.wait_for_selector("main[aria-busy=false]")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()


def test_an_export_copied_into_the_run_folder_adds_to_its_labels(page, labelled_run, capsys):
    """`assay agree` and the page both find three labels of bob and one of ann."""
    open_first_row(page, labelled_run)
    give_label(page, "UNMET", "ann")
    path = export_labels(page, labelled_run)
    assert path.name != "labels.jsonl"
    assert main(["agree", str(labelled_run), "-f", "json"]) == 0
    agreement = json.loads(capsys.readouterr().out)
    assert [(rater["rater"], rater["labels"]) for rater in agreement["raters"]] == [
        ("ann", 1),
        ("bob", 3),
    ]
    [viewed] = ViewedRuns([labelled_run]).runs.values()
    assert len(viewed.describe_row(1)["lines"][0]["labels"]) == 2


def test_an_export_that_replaces_the_label_file_loses_no_label(page, labelled_run):
    open_first_row(page, labelled_run)
    give_label(page, "UNMET", "Bob")
    exported = export_labels(page, labelled_run)
    exported.replace(labelled_run / "labels.jsonl")
    labels = read_run_labels(Run.open(labelled_run))
    assert sorted((label.example, label.verdict) for label in labels) == [
        ("e0", "UNMET"),
        ("e1", "MET"),
        ("e2", "MET"),
    ]


def test_moving_to_the_next_row_saves_the_chosen_verdict(page, labelled_run):
    open_first_row(page, labelled_run)
    page.get_by_role("button", name="for polite: overrule").click()
    page.get_by_role("radio", name="UNMET", exact=True).check()
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("link", name="Next →").click()
    expect(page.locator("h1")).to_contain_text("Row 2")
    labels = read_labels(export_labels(page, labelled_run))
    assert [label.example for label in labels if label.rater == "ann"] == ["e0"]


def test_a_second_tab_of_a_report_keeps_the_labels_of_the_first(page, labelled_run):
    """Both tabs store their labels in the same browser."""
    open_first_row(page, labelled_run)
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("main[aria-busy=false]")
    give_label(page, "UNMET", "ann")
    give_label(other, "UNMET", "cy")
    labels = read_labels(export_labels(other, labelled_run))
    assert sorted(label.rater for label in labels) == ["ann", "bob", "bob", "bob", "cy"]


def test_a_report_runs_only_its_own_script(open_report):
    page = open_report()
    page.evaluate(
        "() => { const one = document.createElement('div'); one.innerHTML = '<img src=data:, onerror=window.pwned=1>'; document.body.append(one); }"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned ?? 0") == 0
    page.problems.clear()


def test_a_report_is_small_without_its_data(tmp_path, make_run):
    with (tmp_path / "page.html").open("w", encoding="utf-8") as file:
        write_report([make_run(tmp_path / "run", [{"completion": "No."}])], file)
    assert (tmp_path / "page.html").stat().st_size < MAX_SIZE


def test_writing_a_report_calls_back_with_its_progress(run_folder, tmp_path):
    """Up to all rows."""
    updates = []
    with (tmp_path / "page.html").open("w", encoding="utf-8") as file:
        assert write_report([run_folder], file, updates.append) == 40
    assert (updates[-1].done, updates[-1].total) == (40, 40)
