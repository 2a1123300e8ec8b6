"""Accessibility: keyboard, focus, names for screen readers, contrast and motion."""

import pytest
from playwright.sync_api import expect

UNNAMED = """() => [...document.querySelectorAll("button, a[href], input, select, textarea, summary, [role=img], [role=region]")]
    .filter((one) => {
        const named = one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length;
        const by = one.getAttribute("aria-labelledby");
        return !named && !(by && document.getElementById(by)?.textContent);
    }).map((one) => one.outerHTML.slice(0, 200))"""

VIEWS = {"": ".tiles", "/rows": ".rows tbody a", "/row/1": ".rollout", "/group/e0": ".group"}
"""For each view, an element that it contains once it is loaded."""


@pytest.fixture
def run(site, browser_thread, page):
    runs = browser_thread.submit(lambda: page.request.get(f"{site}api/runs").json()).result()
    return f"{site}#/run/{runs[0]['id']}"


def active_row(page):
    return page.locator("table.rows tr[aria-current] a")


def test_j_and_k_move_through_rows_and_enter_opens_one(open_page, run):
    page = open_page(f"{run}/rows")
    for key in "jjjk":
        page.keyboard.press(key)
    expect(active_row(page)).to_have_text("2")
    expect(active_row(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Row 2")


def test_end_and_home_go_to_the_last_and_first_row(open_page, run):
    page = open_page(f"{run}/rows")
    page.keyboard.press("End")
    expect(active_row(page)).to_have_text("40")
    page.keyboard.press("Home")
    expect(active_row(page)).to_have_text("1")


def test_j_on_a_rollout_goes_to_the_next_row_of_the_filter(open_page, run):
    """Rows 7 and 12 are unscored; j goes from one to the other, and Escape back to the table."""
    page = open_page(f"{run}/rows?q=unscored")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Row 7")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text("Row 12")
    page.keyboard.press("Escape")
    expect(page.locator(".total")).to_have_text("2 of 40 rows")
    expect(active_row(page)).to_have_text("12")


def test_g_o_and_g_t_open_the_overview_and_the_table(open_page, run):
    page = open_page(f"{run}/row/1")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator(".scroller")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.locator(".tiles")).to_be_visible()


def test_slash_focuses_the_filter_and_escape_leaves_it(open_page, run):
    page = open_page(f"{run}/rows")
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("jk")
    expect(page.locator("#filter")).to_have_value("jk")
    page.keyboard.press("Escape")
    expect(page.locator(".scroller")).to_be_focused()


def test_help_can_be_opened_and_closed_by_keys(open_page, run):
    page = open_page(run)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_r_shows_raw_text(open_page, run):
    page = open_page(f"{run}/row/1")
    page.keyboard.press("r")
    expect(page.locator(".said pre.raw")).to_have_count(2)


def test_the_focused_element_has_an_outline(open_page, run):
    page = open_page(run)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_first_tab_skips_to_the_content(open_page, run):
    page = open_page(run)
    page.reload()
    page.wait_for_selector("main[aria-busy=false]")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator(".tiles")).to_be_visible()


def test_every_control_has_a_name_for_screen_readers(page, run):
    for view, selector in VIEWS.items():
        page.goto(f"{run}{view}")
        page.wait_for_selector(selector)
        assert page.evaluate(UNNAMED) == []
        assert page.locator("h1").count() == 1
    expect(page).to_have_title("Example e0 · manners")


@pytest.mark.parametrize("context_options", [{"viewport": {"width": 360, "height": 740}}])
def test_no_view_scrolls_sideways_at_360_pixels(page, run):
    for view, selector in {**VIEWS, "/rows?q=score<": ".filter-error:not(:empty)"}.items():
        page.goto(f"{run}{view}")
        page.wait_for_selector(selector)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


@pytest.mark.parametrize("context_options", [{"viewport": {"width": 360, "height": 740}}])
def test_the_comparison_fits_into_360_pixels(open_page, two_runs):
    page = open_page(two_runs)
    page.get_by_role("link", name="Compare").click()
    expect(page.locator(".flips")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("context_options", [{"color_scheme": "dark"}])
def test_dark_mode_follows_the_system_until_the_user_chooses(open_page, run):
    page = open_page(run)
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(19, 22, 27)"
    page.get_by_role("button", name="Dark or light").click()
    assert page.evaluate(background) == "rgb(247, 247, 245)"
    page.reload()
    assert page.evaluate(background) == "rgb(247, 247, 245)"


@pytest.mark.parametrize("context_options", [{"reduced_motion": "reduce"}])
def test_there_are_no_animations_with_reduced_motion(open_page, run):
    page = open_page(run)
    moving = "[...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).animationName !== 'none').length"
    assert page.evaluate(moving) == 0
