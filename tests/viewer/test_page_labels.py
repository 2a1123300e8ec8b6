"""Labelling in the page: a person overrules a verdict, and the judge's stays as it is."""

import pytest
from playwright.sync_api import expect

from assay.runs import Run
from assay.trust import read_labels


@pytest.fixture
def folder(tmp_path, make_run):
    """A run that nobody else looks at."""
    said = "Well, could you please look again?"
    return make_run(
        tmp_path / "labelled", [{"example_id": "e", "prompt": "Ask.", "completion": said}] * 2
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


def test_a_label_is_saved_beside_the_run_and_not_over_the_verdict(look, serve, folder):
    page = look(f"{serve(folder)}#/")
    page.get_by_role("link", name="Rows", exact=True).click()
    page.locator("table.rows tbody a").first.click()
    overrule(page, "polite", "UNMET", note="a command in polite words")
    line = page.locator(".line").first
    expect(line.locator(".labels")).to_contain_text("UNMET by Ann")
    expect(line.locator(".labels")).to_contain_text("a command in polite words")
    expect(line.locator(".overrule")).to_have_text("✓MET")
    [label] = read_labels(folder / "labels.jsonl")
    run = Run.open(folder)
    assert (label.example, label.sample, label.criterion, label.verdict) == (
        "e",
        0,
        "polite",
        "UNMET",
    )
    assert (label.rater, label.note) == ("Ann", "a command in polite words")
    assert label.guideline == run.about.rubric.criteria[0].hash
    assert run.row("e").report.lines[0].verdict == "MET"


def test_the_author_is_remembered_and_may_take_a_label_back(look, serve, folder):
    page = look(f"{serve(folder)}#/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    overrule(page, "polite", "UNMET")
    expect(page.locator(".labels")).to_have_count(1)
    page.get_by_role("button", name="for polite: overrule").click()
    expect(page.get_by_label("Your name")).to_have_value("Ann")
    page.get_by_role("button", name="Take mine back").click()
    expect(page.locator(".labels")).to_have_count(0)


def test_labelled_rows_can_be_found(look, serve, folder):
    address = serve(folder)
    page = look(f"{address}#/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    overrule(page, "short", "UNMET")
    expect(page.locator(".labels")).to_have_count(1)
    page.get_by_role("link", name="Rows", exact=True).first.click()
    page.get_by_role("button", name="labelled").click()
    expect(page.locator(".total")).to_have_text("1 of 2 rows")
    expect(page.locator(".flag")).to_have_count(1)


def test_a_label_needs_a_verdict_and_an_author(look, serve, folder):
    page = look(f"{serve(folder)}#/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.locator("table.rows tbody a").first.click()
    form = overrule(page, "polite", None)
    expect(form.get_by_role("alert")).to_have_text("Pick a verdict.")
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    expect(page.get_by_role("button", name="for polite: overrule")).to_be_focused()
    assert not (folder / "labels.jsonl").exists()
