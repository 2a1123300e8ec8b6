"""What models write is hostile: the page shows it as text, and none of it runs, loads or breaks out."""

import pytest
from playwright.sync_api import expect

from assay import Autograder, Score

SCRIPT = "<script>window.pwned = 1</script>"
IMAGE = '<img src="http://198.51.100.1/x.png" onerror="window.pwned = 2">'
TRICKS = [
    f"{SCRIPT}{IMAGE}<svg onload=window.pwned=3></svg></div></main><style>*{{display:none}}</style>",
    "[press me](javascript:window.pwned=4) ![](http://198.51.100.1/y.png) <http://198.51.100.1/>",
    r"$\href{javascript:window.pwned=5}{x}$ $\htmlClass{a}{x}$ $\includegraphics{http://198.51.100.1/z.png}$ \(\def\a{\a\a}\a\)",
    "</script><script>window.pwned=6</script><!--<![CDATA[ \"'> `` ``` **__~~ | --- |\n|---|\n> > > >\n- - -\n1. ",
    "pay \u202e001$\u202c now, \u200bzero\u200b \u2066isolate \x00\x1b[31m and \ud83d\ude00 ـكَ عربي",
    "*" * 5000 + "[" * 5000 + "`" * 4999 + ">" * 3000 + "$" * 3001,
]


class Hostile(Autograder):
    """A judge that repeats what it was told to judge."""

    async def judge(self, to_grade, rubric, query=None):
        reason = f'{to_grade[:2000]} "{SCRIPT}"'
        return [Score(1.0, reason, "MET") for _ in rubric[:-1]] + [Score.failed(f"Error: {IMAGE}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_run):
    data = [
        {
            "example_id": f"{SCRIPT}/..%2f#?{number}",
            "task": IMAGE,
            "prompt": [
                {"role": f"<b>{SCRIPT}", "content": trick},
                {"role": "user", "content": trick},
            ],
            "completion": [
                {
                    "role": "assistant",
                    "content": trick,
                    "tool_calls": [{"function": {"name": SCRIPT, "arguments": trick}}],
                }
            ],
            "answer": trick,
            "info": {SCRIPT: trick},
            SCRIPT: [trick],
        }
        for number, trick in enumerate(TRICKS)
    ]
    data.append({"example_id": "long", "prompt": "Go on.", "completion": "a<b>" * 1_250_000})
    return make_run(tmp_path_factory.mktemp("hostile") / "<img src=x>", data, judge=Hostile())


@pytest.fixture(scope="module")
def site(serve, folder):
    return serve(folder)


@pytest.fixture
def watched(page, browser_thread, site):
    """The page, with an eye on broken policies and on every address that it asks for."""
    asked: list[str] = []

    def watch():
        page.add_init_script(
            "window.broken = []; addEventListener('securitypolicyviolation', (e) => broken.push(e.violatedDirective))"
        )
        page.on("request", lambda request: asked.append(request.url))
        return page.request.get(f"{site}api/runs").json()[0]["id"]

    page.run = f"{site}#/run/{browser_thread.submit(watch).result()}"
    yield page
    strange = [one for one in asked if not one.startswith((site, "data:image/svg+xml,"))]
    assert strange == []


def nothing_ran(page):
    assert page.evaluate("[window.pwned ?? 0, window.broken.length]") == [0, 0]
    assert page.locator("main script, main style, main img, main a[href^=javascript]").count() == 0


def test_no_view_runs_what_a_model_wrote(look, watched):
    page = look(watched.run)
    nothing_ran(page)
    page.goto(f"{watched.run}/rows")
    expect(page.locator("table.rows tbody a")).to_have_count(7)
    nothing_ran(page)


def test_no_rollout_runs_what_a_model_wrote(look, watched):
    """Neither rendered nor raw."""
    page = look(f"{watched.run}/row/1")
    for number in range(1, len(TRICKS) + 1):
        expect(page.locator("h1")).to_contain_text(f"Row {number}")
        nothing_ran(page)
        page.keyboard.press("r")
        expect(page.locator(".said pre.raw").first).to_be_visible()
        nothing_ran(page)
        page.keyboard.press("r")
        page.keyboard.press("j")


def test_markup_is_shown_as_the_text_it_is(look, watched):
    page = look(f"{watched.run}/row/1")
    expect(page.locator(".said")).to_contain_text(SCRIPT)
    expect(page.locator(".reason").first).to_contain_text(SCRIPT)
    expect(page.locator("#header")).to_contain_text("<img src=x>")


def test_a_group_with_a_hostile_name_can_be_opened(look, watched):
    page = look(f"{watched.run}/row/1")
    page.get_by_role("link", name="Same prompt").click()
    expect(page.locator("h1")).to_contain_text(f"Example {SCRIPT}/..%2f#?0")
    nothing_ran(page)


def test_a_link_leads_nowhere_and_shows_its_address(look, watched):
    page = look(f"{watched.run}/row/2")
    expect(page.locator(".said .link-text").first).to_have_text(
        "press me (javascript:window.pwned=4)"
    )
    assert page.locator(".said a").count() == 0


def test_characters_that_turn_text_round_are_shown(look, watched):
    """An override that makes 001$ look like $100 is a badge in the rendered text already."""
    page = look(f"{watched.run}/row/5")
    badges = page.locator(".said .role-assistant > .body .hidden-character")
    expect(badges).to_have_text(["RLO", "PDF", "LRI"])
    page.keyboard.press("r")
    expect(badges).to_have_text(["RLO", "PDF", "ZWSP", "ZWSP", "LRI", "NUL", "ESC"])


@pytest.mark.slow
def test_five_million_characters_are_cut_and_can_be_shown(look, watched):
    page = look(f"{watched.run}/row/7")
    body = page.locator(".said .role-assistant > .body")
    expect(body).to_contain_text("5.0 million characters, of which 20,000 are shown")
    assert len(body.text_content()) < 21_000
    body.get_by_role("button", name="Show all").click()
    assert body.evaluate("one => one.textContent.length") == 5_000_000
    nothing_ran(page)


def test_the_policy_stops_what_the_page_would_let_through(look, watched):
    """Were markup ever to get in, the content policy would still run none of it."""
    page = look(watched.run)
    page.evaluate(
        "() => { const one = document.createElement('div'); one.innerHTML = '<img src=data:, onerror=window.pwned=7>'; document.body.append(one); }"
    )
    page.wait_for_function("() => window.broken.length > 0")
    assert page.evaluate("window.pwned ?? 0") == 0
    page.troubles.clear()
