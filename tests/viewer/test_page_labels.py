"""Labelling in the page: a person overrules a verdict, and the verdict of the judge is kept."""

import json

import pytest
from playwright.sync_api import expect

from assay.runs import Run
from assay.trust import hash_text, read_run_labels


@pytest.fixture
def folder(tmp_path, make_run):
    """A run that only this test uses."""
    completion = "Well, could you please look again?"
    return make_run(
        tmp_path / "labelled", [{"example_id": "e", "prompt": "Ask.", "completion": completion}] * 2
    )


def overrule(page, criterion, choice, note="", name="Ann"):
    page.get_by_role("button", name=f"for {criterion}: overrule").click()
    form = page.get_by_role("form", name=f"Overrule {criterion}")
    if choice:
        form.get_by_role("radio", name=choice, exact=True).check()
    form.get_by_label("Note").fill(note)
    form.get_by_label("Your name").fill(name)
    form.get_by_role("button", name="Save label").click()
    return form


def test_a_label_is_saved_without_replacing_the_verdict(open_page, serve, folder):
    page = open_page(f"{serve(folder)}#/")
    page.get_by_role("link", name="Rows", exact=True).click()
    page.locator("table.rows tbody a").first.click()
    overrule(page, "polite", "UNMET", note="a command in polite words")
    line = page.locator(".line").first
    expect(line.locator(".labels")).to_contain_text("UNMET by Ann")
    expect(line.locator(".labels")).to_contain_text("a command in polite words")
    expect(line.locator(".overrule")).to_have_text("✓MET")
    [label] = read_run_labels(Run.open(folder))
    run = Run.open(folder)
    assert (label.example, label.sample, label.criterion, label.verdict) == (
        "e",
        0,
        "polite",
        "UNMET",
    )
    assert (label.rater, label.note) == ("Ann", "a command in polite words")
    assert label.guideline == run.about.rubric.criteria[0].question
    assert label.text_hash == hash_text("Ask.", "Well, could you please look again?")
    assert run.row("e").report.lines[0].verdict == "MET"


def test_the_author_is_remembered_and_can_withdraw_a_label(open_page, serve, folder):
    page = open_page(f"{serve(folder)}#/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    overrule(page, "polite", "UNMET")
    expect(page.locator(".labels")).to_have_count(1)
    page.get_by_role("button", name="for polite: overrule").click()
    expect(page.get_by_label("Your name")).to_have_value("Ann")
    page.get_by_role("button", name="Take mine back").click()
    expect(page.locator(".labels")).to_have_count(0)


def test_labelled_rows_can_be_filtered(open_page, serve, folder):
    address = serve(folder)
    page = open_page(f"{address}#/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    overrule(page, "short", "UNMET")
    expect(page.locator(".labels")).to_have_count(1)
    page.get_by_role("link", name="Rows", exact=True).first.click()
    page.get_by_role("button", name="labelled").click()
    expect(page.locator(".total")).to_have_text("1 of 2 rows")
    expect(page.locator(".flag")).to_have_count(1)


def test_a_label_needs_a_verdict_and_an_author(open_page, serve, folder):
    page = open_page(f"{serve(folder)}#/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    form = overrule(page, "polite", None)
    expect(form.get_by_role("alert")).to_have_text("Pick a verdict.")
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    expect(page.get_by_role("button", name="for polite: overrule")).to_be_focused()
    assert read_run_labels(Run.open(folder)) == []


def open_row(page, number=1):
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").nth(number - 1).click()
    expect(page.locator("h1")).to_contain_text(f"Row {number}")


def choose(page, criterion, choice, name="Ann"):
    """Choose a verdict without saving it."""
    page.get_by_role("button", name=f"for {criterion}: overrule").click()
    form = page.get_by_role("form", name=f"Overrule {criterion}")
    form.get_by_role("radio", name=choice, exact=True).check()
    form.get_by_label("Your name").fill(name)
    return form


@pytest.mark.parametrize("action", ["key", "link"])
def test_moving_to_the_next_row_saves_the_chosen_verdict(open_page, serve, folder, action):
    page = open_page(f"{serve(folder)}#/")
    open_row(page)
    form = choose(page, "polite", "UNMET")
    if action == "key":
        form.get_by_role("radio", name="UNMET", exact=True).focus()
        page.keyboard.press("j")
    else:
        page.get_by_role("link", name="Next →").click()
    expect(page.locator("h1")).to_contain_text("Row 2")
    page.keyboard.press("k")
    expect(page.locator("h1")).to_contain_text("Row 1")
    expect(page.locator(".line").first.locator(".labels")).to_contain_text("UNMET by Ann")
    [label] = read_run_labels(Run.open(folder))
    assert (label.criterion, label.verdict, label.sample) == ("polite", "UNMET", 0)


def test_a_choice_that_cannot_be_saved_keeps_its_row_open(open_page, serve, folder):
    """The form says what is missing, and the URL stays that of the row."""
    page = open_page(f"{serve(folder)}#/")
    open_row(page)
    address = page.url
    form = choose(page, "polite", "UNMET", name="")
    page.get_by_role("link", name="Next →").click()
    expect(form.get_by_role("alert")).to_contain_text("every label has an author")
    expect(page.locator("h1")).to_contain_text("Row 1")
    assert page.url == address
    form.get_by_label("Your name").fill("Ann")
    page.get_by_role("link", name="Next →").click()
    expect(page.locator("h1")).to_contain_text("Row 2")
    assert len(read_run_labels(Run.open(folder))) == 1


def test_saving_one_label_keeps_the_choice_in_another_form(open_page, serve, folder):
    page = open_page(f"{serve(folder)}#/")
    open_row(page)
    other_form = choose(page, "short", "UNMET")
    overrule(page, "polite", "UNMET")
    expect(page.locator(".labels")).to_have_count(1)
    expect(other_form.get_by_role("radio", name="UNMET", exact=True)).to_be_checked()
    page.get_by_role("button", name="Raw text").click()
    expect(other_form.get_by_role("radio", name="UNMET", exact=True)).to_be_checked()


def test_author_names_ignore_case_and_spaces(open_page, serve, folder):
    """The second label replaces the first, and can be withdrawn."""
    page = open_page(f"{serve(folder)}#/")
    open_row(page)
    overrule(page, "polite", "UNMET", name="Anna")
    expect(page.locator(".labels li")).to_have_count(1)
    overrule(page, "polite", "MET", name=" anna ")
    expect(page.locator(".labels")).to_contain_text("MET by anna")
    expect(page.locator(".labels li")).to_have_count(1)
    assert [label.verdict for label in read_run_labels(Run.open(folder))] == ["MET"]


def test_a_label_for_another_text_is_marked(open_page, serve, folder):
    label = {"example": "e", "criterion": "polite", "verdict": "UNMET", "text_hash": "0123"}
    (folder / "labels.jsonl").write_text(json.dumps(label))
    page = open_page(f"{serve(folder)}#/")
    open_row(page)
    expect(page.locator(".labels")).to_contain_text("other text")
    overrule(page, "polite", "UNMET")
    expect(page.locator(".labels li")).to_have_count(2)
    expect(page.locator(".labels .badge")).to_have_count(1)
    assert len(read_run_labels(Run.open(folder))) == 2
