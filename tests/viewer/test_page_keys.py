"""The page without a mouse: keys, focus, names for screen readers."""

import pytest
from playwright.sync_api import expect

UNNAMED = """() => [...document.querySelectorAll("button, a[href], input, select, textarea, summary, [role=img], [role=region]")]
    .filter((one) => {
        const named = one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length;
        const by = one.getAttribute("aria-labelledby");
        return !named && !(by && document.getElementById(by)?.textContent);
    }).map((one) => one.outerHTML.slice(0, 200))"""

VIEWS = {"": ".tiles", "/rows": ".rows tbody a", "/row/1": ".rollout", "/group/e0": ".group"}
"""What is there when a view is."""


@pytest.fixture
def run(site, browser_thread, page):
    listed = browser_thread.submit(lambda: page.request.get(f"{site}api/runs").json()).result()
    return f"{site}#/run/{listed[0]['id']}"


def active_row(page):
    return page.locator("table.rows tr[aria-current] a")


def test_j_and_k_walk_through_rows_and_enter_opens_one(look, run):
    page = look(f"{run}/rows")
    for key in "jjjk":
        page.keyboard.press(key)
    expect(active_row(page)).to_have_text("2")
    expect(active_row(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Row 2")


def test_the_last_row_is_one_key_away(look, run):
    page = look(f"{run}/rows")
    page.keyboard.press("End")
    expect(active_row(page)).to_have_text("40")
    page.keyboard.press("Home")
    expect(active_row(page)).to_have_text("1")


def test_a_rollout_turns_to_the_next_of_the_same_filter(look, run):
    """Rows 7 and 12 are unscored; from one, j leads to the other, and Escape back to the table."""
    page = look(f"{run}/rows?q=unscored")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Row 7")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_contain_text("Row 12")
    page.keyboard.press("Escape")
    expect(page.locator(".total")).to_have_text("2 of 40 rows")
    expect(active_row(page)).to_have_text("12")


def test_g_o_and_g_t_lead_to_the_views(look, run):
    page = look(f"{run}/row/1")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator(".scroller")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.locator(".tiles")).to_be_visible()


def test_a_slash_goes_to_the_filter_and_escape_leaves_it(look, run):
    page = look(f"{run}/rows")
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("jk")
    expect(page.locator("#filter")).to_have_value("jk")
    page.keyboard.press("Escape")
    expect(page.locator(".scroller")).to_be_focused()


def test_help_opens_and_closes_by_keys(look, run):
    page = look(run)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_r_shows_raw_text(look, run):
    page = look(f"{run}/row/1")
    page.keyboard.press("r")
    expect(page.locator(".said pre.raw")).to_have_count(2)


def test_focus_can_be_seen(look, run):
    page = look(run)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_first_tab_skips_to_the_content(look, run):
    page = look(run)
    page.reload()
    page.wait_for_selector("main[aria-busy=false]")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator(".tiles")).to_be_visible()


def test_everything_has_a_name_for_screen_readers(page, run):
    for view, sign in VIEWS.items():
        page.goto(f"{run}{view}")
        page.wait_for_selector(sign)
        assert page.evaluate(UNNAMED) == []
        assert page.locator("h1").count() == 1
    expect(page).to_have_title("Example e0 · manners")


@pytest.mark.parametrize("context_options", [{"viewport": {"width": 360, "height": 740}}])
def test_a_window_of_360_pixels_needs_no_sideways_scrolling(page, run):
    for view, sign in {**VIEWS, "/rows?q=score<": ".filter-error:not(:empty)"}.items():
        page.goto(f"{run}{view}")
        page.wait_for_selector(sign)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view


@pytest.mark.parametrize("context_options", [{"viewport": {"width": 360, "height": 740}}])
def test_comparing_fits_into_360_pixels(look, two_runs):
    page = look(two_runs)
    page.get_by_role("link", name="Compare").click()
    expect(page.locator(".flips")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("context_options", [{"color_scheme": "dark"}])
def test_dark_follows_the_system_until_somebody_chooses(look, run):
    page = look(run)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(19, 22, 27)"
    page.get_by_role("button", name="Dark or light").click()
    assert page.evaluate(ground) == "rgb(247, 247, 245)"
    page.reload()
    assert page.evaluate(ground) == "rgb(247, 247, 245)"


@pytest.mark.parametrize("context_options", [{"reduced_motion": "reduce"}])
def test_nothing_moves_for_those_who_do_not_want_it(look, run):
    page = look(run)
    moving = "[...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).animationName !== 'none').length"
    assert page.evaluate(moving) == 0
