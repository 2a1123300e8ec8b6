"""Model output may be hostile: the page shows it as text, and nothing in it runs or is loaded."""

import pytest
from playwright.sync_api import expect

from assay import Autograder, Score

SCRIPT = "<script>window.pwned = 1</script>"
IMAGE = '<img src="http://198.51.100.1/x.png" onerror="window.pwned = 2">'
ATTACKS = [
    f"{SCRIPT}{IMAGE}<svg onload=window.pwned=3></svg></div></main><style>*{{display:none}}</style>",
    "[press me](javascript:window.pwned=4) ![](http://198.51.100.1/y.png) <http://198.51.100.1/>",
    r"$\href{javascript:window.pwned=5}{x}$ $\htmlClass{a}{x}$ $\includegraphics{http://198.51.100.1/z.png}$ \(\def\a{\a\a}\a\)",
    "</script><script>window.pwned=6</script><!--<![CDATA[ \"'> `` ``` **__~~ | --- |\n|---|\n> > > >\n- - -\n1. ",
    "pay \u202e001$\u202c now, \u200bzero\u200b \u2066isolate \x00\x1b[31m and \ud83d\ude00 ـكَ عربي",
    "*" * 5000 + "[" * 5000 + "`" * 4999 + ">" * 3000 + "$" * 3001,
]


class RepeatingJudge(Autograder):
    """A judge that repeats the text it judges."""

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
                {"role": f"<b>{SCRIPT}", "content": attack},
                {"role": "user", "content": attack},
            ],
            "completion": [
                {
                    "role": "assistant",
                    "content": attack,
                    "tool_calls": [{"function": {"name": SCRIPT, "arguments": attack}}],
                }
            ],
            "answer": attack,
            "info": {SCRIPT: attack},
            SCRIPT: [attack],
        }
        for number, attack in enumerate(ATTACKS)
    ]
    data.append({"example_id": "long", "prompt": "Go on.", "completion": "a<b>" * 1_250_000})
    return make_run(
        tmp_path_factory.mktemp("hostile") / "<img src=x>", data, judge=RepeatingJudge()
    )


@pytest.fixture(scope="module")
def site(serve, folder):
    return serve(folder)


@pytest.fixture
def monitored_page(page, browser_thread, site):
    """The page, with a record of policy violations and of every URL that it requests."""
    requested_urls: list[str] = []

    def watch():
        page.add_init_script(
            "window.broken = []; addEventListener('securitypolicyviolation', (e) => broken.push(e.violatedDirective))"
        )
        page.on("request", lambda request: requested_urls.append(request.url))
        return page.request.get(f"{site}api/runs").json()[0]["id"]

    page.run = f"{site}#/run/{browser_thread.submit(watch).result()}"
    yield page
    unexpected = [
        url for url in requested_urls if not url.startswith((site, "data:image/svg+xml,"))
    ]
    assert unexpected == []


def assert_nothing_ran(page):
    assert page.evaluate("[window.pwned ?? 0, window.broken.length]") == [0, 0]
    assert page.locator("main script, main style, main img, main a[href^=javascript]").count() == 0


def test_no_view_runs_what_a_model_wrote(open_page, monitored_page):
    page = open_page(monitored_page.run)
    assert_nothing_ran(page)
    page.goto(f"{monitored_page.run}/rows")
    expect(page.locator("table.rows tbody a")).to_have_count(7)
    assert_nothing_ran(page)


def test_no_rollout_runs_what_a_model_wrote(open_page, monitored_page):
    """Neither rendered nor as raw text."""
    page = open_page(f"{monitored_page.run}/row/1")
    for number in range(1, len(ATTACKS) + 1):
        expect(page.locator("h1")).to_contain_text(f"Row {number}")
        assert_nothing_ran(page)
        page.keyboard.press("r")
        expect(page.locator(".said pre.raw").first).to_be_visible()
        assert_nothing_ran(page)
        page.keyboard.press("r")
        page.keyboard.press("j")


def test_markup_is_shown_as_text(open_page, monitored_page):
    page = open_page(f"{monitored_page.run}/row/1")
    expect(page.locator(".said")).to_contain_text(SCRIPT)
    expect(page.locator(".reason").first).to_contain_text(SCRIPT)
    expect(page.locator("#header")).to_contain_text("<img src=x>")


def test_a_group_with_a_hostile_name_can_be_opened(open_page, monitored_page):
    page = open_page(f"{monitored_page.run}/row/1")
    page.get_by_role("link", name="Same prompt").click()
    expect(page.locator("h1")).to_contain_text(f"Example {SCRIPT}/..%2f#?0")
    assert_nothing_ran(page)


def test_a_link_is_shown_as_text_with_its_address(open_page, monitored_page):
    page = open_page(f"{monitored_page.run}/row/2")
    expect(page.locator(".said .link-text").first).to_have_text(
        "press me (javascript:window.pwned=4)"
    )
    assert page.locator(".said a").count() == 0


def test_direction_control_characters_are_shown(open_page, monitored_page):
    """An override that makes 001$ look like $100 is shown as a badge, even in rendered text."""
    page = open_page(f"{monitored_page.run}/row/5")
    badges = page.locator(".said .role-assistant > .body .hidden-character")
    expect(badges).to_have_text(["RLO", "PDF", "LRI"])
    page.keyboard.press("r")
    expect(badges).to_have_text(["RLO", "PDF", "ZWSP", "ZWSP", "LRI", "NUL", "ESC"])


@pytest.mark.slow
def test_a_text_of_five_million_characters_is_cut_until_all_is_requested(open_page, monitored_page):
    page = open_page(f"{monitored_page.run}/row/7")
    body = page.locator(".said .role-assistant > .body")
    expect(body).to_contain_text("5.0 million characters, of which 20,000 are shown")
    assert len(body.text_content()) < 21_000
    body.get_by_role("button", name="Show all").click()
    assert body.evaluate("one => one.textContent.length") == 5_000_000
    assert_nothing_ran(page)


def test_the_content_policy_blocks_injected_markup(open_page, monitored_page):
    """If markup ever got into the page, the policy would still not run it."""
    page = open_page(monitored_page.run)
    page.evaluate(
        "() => { const one = document.createElement('div'); one.innerHTML = '<img src=data:, onerror=window.pwned=7>'; document.body.append(one); }"
    )
    page.wait_for_function("() => window.broken.length > 0")
    assert page.evaluate("window.pwned ?? 0") == 0
    page.problems.clear()
