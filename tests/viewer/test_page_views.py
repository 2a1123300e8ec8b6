"""Every view of the page, in a real browser with a real server."""

import asyncio
import json

import pytest
from playwright.sync_api import expect

from assay import PerCriterionGrader, Rubric, ToolJudge
from assay.checks import Called, MaxWords
from assay.envs import SingleTurnEnv
from assay.models import Price
from assay.runs import score_rows
from assay.testing import FakeModel, ModelServer, tool_call
from assay.tools import Workspace


@pytest.fixture
def run(serve, site, browser_thread, page):
    """The URL of the run, to which a test appends the path of a view."""
    runs = browser_thread.submit(lambda: page.request.get(f"{site}api/runs").json()).result()
    return f"{site}#/run/{runs[0]['id']}"


def test_the_overview_shows_errors_first(open_page, site):
    """The judges failed for one rollout and one has nothing to score: 2 of 40, with two kinds of error."""
    page = open_page(site)
    banner = page.get_by_role("alert", name="Errors")
    expect(banner).to_contain_text(
        "2 rollouts of 40 have no score, 1 of them because there was nothing to score"
    )
    expect(banner.get_by_role("listitem")).to_have_count(2)
    expect(banner).to_contain_text("ConnectionError")
    tops = page.evaluate("[...document.querySelectorAll('.view > *')].map(part => part.className)")
    assert tops.index("banner error") < tops.index("tiles")


def test_the_error_banner_links_to_the_unscored_rows(open_page, site):
    page = open_page(site)
    page.get_by_role("link", name="See the unscored rows").click()
    expect(page.locator(".total")).to_have_text("2 of 40 rows")
    expect(page.locator("table.rows tbody a")).to_have_text(["7", "12"])


def test_the_overview_shows_the_shares_of_met_unmet_and_error(open_page, site):
    """Of 38 scored rollouts 10 are polite and 28 are not; a judge failure is an error, not UNMET."""
    page = open_page(site)
    polite = page.get_by_role("group", name="polite")
    expect(polite).to_contain_text("met 26 %")
    expect(polite).to_contain_text("unmet 72 %")
    expect(polite).to_contain_text("error 3 %")
    expect(page.get_by_role("group", name="cites")).to_contain_text("N/A")


def test_charts_have_a_text_alternative(open_page, site):
    page = open_page(site)
    label = page.locator(".plot").get_attribute("aria-label")
    assert label.startswith("Histogram of score over 38 rollouts, from 0.000 to 1.000.")
    page.get_by_text("Show as a table").click()
    expect(page.get_by_role("button", name="0.650 to 0.700")).to_be_visible()
    expect(page.locator(".mean-bar").first).to_have_attribute("aria-label")


def test_a_bar_of_the_histogram_links_to_its_rows(open_page, site):
    """Ten rollouts have a score of 2/3."""
    page = open_page(site)
    page.get_by_text("Show as a table").click()
    page.get_by_role("button", name="0.650 to 0.700").click()
    expect(page.locator("#filter")).to_have_value("score>=0.65 score<0.7")
    expect(page.locator(".total")).to_have_text("10 of 40 rows")


def test_a_filter_limits_the_table(open_page, run):
    """28 rollouts are not polite."""
    page = open_page(f"{run}/rows")
    page.locator("#filter").fill("criterion:polite verdict:UNMET")
    expect(page.locator(".total")).to_have_text("28 of 40 rows")
    assert "verdict%3AUNMET" in page.url


def test_the_error_of_an_invalid_filter_is_shown_below_it(open_page, run):
    page = open_page(f"{run}/rows")
    page.locator("#filter").fill("verdct:MET")
    expect(page.locator("#filter-error")).to_have_text(
        "there is no 'verdct' to filter by: did you mean 'verdict'?"
    )
    expect(page.locator("#filter")).to_have_attribute("aria-invalid", "true")
    page.locator("#filter").fill("verdict:MET")
    expect(page.locator("#filter-error")).to_be_hidden()


def test_a_column_can_be_sorted_in_both_directions(open_page, run):
    """The most expensive row is the last; rows without a score are at the end either way."""
    page = open_page(f"{run}/rows")
    first = page.locator("table.rows tbody tr:not(.spacer)").first.locator("a")
    page.get_by_role("button", name="Cost").click()
    expect(first).to_have_text("1")
    page.get_by_role("button", name="Cost").click()
    expect(first).to_have_text("40")
    expect(page.get_by_role("columnheader", name="Cost")).to_have_attribute(
        "aria-sort", "descending"
    )


def test_chosen_columns_are_remembered(open_page, run):
    page = open_page(f"{run}/rows")
    expect(page.get_by_role("columnheader", name="Reward")).to_have_count(0)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Reward").check()
    expect(page.get_by_role("columnheader", name="Reward")).to_be_visible()
    page.reload()
    expect(page.get_by_role("columnheader", name="Reward")).to_be_visible()


def test_only_visible_rows_are_rendered(open_page, run):
    page = open_page(f"{run}/rows")
    page.set_viewport_size({"width": 1000, "height": 500})
    drawn = page.locator("table.rows tbody tr:not(.spacer)")
    assert drawn.count() < 40
    page.locator(".scroller").evaluate("scroller => scroller.scrollTop = 1e6")
    expect(drawn.last.locator("a")).to_have_text("40")
    expect(page.locator("table.rows")).to_have_attribute("aria-rowcount", "41")


def test_a_rollout_shows_its_conversation_and_results(open_page, run):
    page = open_page(f"{run}/row/1")
    expect(page.locator("main")).to_contain_text("Question 0")
    expect(page.locator(".said math")).to_have_count(1)
    expect(page.locator(".line")).to_have_count(4)
    expect(page.locator(".row-score")).to_contain_text("0.667")
    expect(page.get_by_role("region", name="Answer")).to_contain_text("7")
    expect(page.get_by_role("region", name="Facts")).to_contain_text("$0.001")


def test_quoted_words_are_marked_in_the_answer(open_page, run):
    """The reason quotes "could you please" from the answer; a click goes there."""
    page = open_page(f"{run}/row/1")
    mark = page.locator(".said mark").first
    expect(mark).to_have_text("could you please")
    page.locator(".reason mark").first.click()
    expect(page.locator(".said mark.pointed").first).to_have_text("could you please")


def test_words_that_are_not_in_the_answer_are_flagged(open_page, run):
    page = open_page(f"{run}/row/2")
    expect(page.locator(".evidence .missing").first).to_contain_text(
        "not in the answer “as everybody knows”"
    )


CALL = {"id": "a", "function": {"name": "search_orders", "arguments": '{"customer": 7}'}}
CONVERSATION = [
    {
        "role": "assistant",
        "content": "Let me look.\n" + "Wait. " * 900,
        "reasoning_content": "Which order? 哪个订单",
        "tool_calls": [CALL],
    },
    {"role": "tool", "tool_call_id": "a", "content": "row\n" * 300 + "order 12 是在路上"},
    {"role": "assistant", "content": "It is on its way."},
]


@pytest.fixture(scope="module")
def site_with_citations(serve, tmp_path_factory):
    """A run of one conversation whose judge cites a call, reasoning, tool output, a step and words that do not exist."""
    reason = (
        'It looks [m3.call1: "search_orders"], after a thought [m3.thinking1: "哪个订单"], and finds it [m4: "是在路上"]; '
        'the request is clear [m2]. It pays [m3: "I have paid"] and ends [m9]. It says "on its way".'
    )
    prompt = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Where is it?"},
    ]
    rubric = Rubric(
        [
            {"requirement": "Looks first", "name": "looks", "thinking": "shown"},
            {"check": MaxWords(5), "name": "short", "scope": "step"},
            {"check": Called("refund", times=0), "name": "keeps_money"},
            {"check": Called("search_orders", times=0), "name": "guesses"},
        ],
        judge=PerCriterionGrader(FakeModel("MET", reason=reason)),
    )
    folder = tmp_path_factory.mktemp("cited") / "run"
    asyncio.run(score_rows(rubric, [{"prompt": prompt, "completion": CONVERSATION}], folder=folder))
    return serve(folder)


def test_a_citation_links_to_the_part_it_cites(open_page, page, site_with_citations):
    """A click scrolls there and highlights the words, or else the whole part; collapsed reasoning is opened."""
    [run] = page.request.get(f"{site_with_citations}api/runs").json()
    open_page(f"{site_with_citations}#/run/{run['id']}/row/1")
    pointed = page.locator(".said .pointed")
    for words, content, tag in (
        ("m3.call1 “search_orders”", "search_orders", "tool-call"),
        ("m3.thinking1 “哪个订单”", "哪个订单", "thinking"),
        ("m4 “是在路上”", "是在路上", "mark"),
        ("m2", "Where is it?", "message"),
    ):
        page.evaluate("scrollTo(0, 0)")
        page.get_by_role("button", name=words, exact=True).click()
        expect(pointed).to_have_count(1)
        expect(pointed).to_contain_text(content)
        expect(pointed).to_be_in_viewport()
        assert tag in pointed.evaluate("one => `${one.tagName.toLowerCase()} ${one.className}`")
    expect(page.locator("details.thinking")).to_have_attribute("open", "")
    missing = page.locator(".evidence .missing")
    expect(missing).to_have_text(["not in the answer m3 “I have paid”", "not in the answer m9"])


def test_the_steps_of_a_criterion_link_to_the_conversation(open_page, page, site_with_citations):
    """With the verdict on each step. A check that cites a call links there too, as a judge does."""
    [run] = page.request.get(f"{site_with_citations}api/runs").json()
    open_page(f"{site_with_citations}#/run/{run['id']}/row/1")
    steps = page.locator(".line", has_text="short").locator(".votes")
    expect(steps).to_have_attribute("open", "")
    expect(steps.locator("summary")).to_have_text("2 steps")
    expect(steps.get_by_role("listitem")).to_have_text(["✗UNMETm3903 words, 5 allowed", "✓METm5"])
    steps.get_by_role("button", name="m5", exact=True).click()
    expect(page.locator(".said .pointed")).to_contain_text("It is on its way.")
    page.locator(".line", has_text="guesses").get_by_role(
        "button", name="m3.call1", exact=True
    ).click()
    expect(page.locator(".said .pointed")).to_contain_text("search_orders")


def test_votes_are_expanded_if_judges_disagree(open_page, run):
    page = open_page(f"{run}/row/2")
    votes = page.locator(".line").first.locator(".votes")
    expect(votes).to_have_attribute("open", "")
    expect(votes).to_contain_text("2 votes, 100 % apart")
    expect(votes.get_by_role("listitem")).to_have_text(["✓METlenient", "✗UNMETstrict"])


@pytest.fixture
def site_with_saved_requests(serve, tmp_path):
    """A run with the requests to its judge and the replies."""
    rubric = Rubric.from_dict([{"requirement": "Is polite", "name": "polite"}])
    grader = PerCriterionGrader(model=FakeModel("MET", reason="<b>it is</b>"))
    rows = [{"completion": "please <i>come</i>"}]
    asyncio.run(
        score_rows(rubric, rows, folder=tmp_path / "kept", judge=grader, save_requests=True)
    )
    return serve(tmp_path / "kept")


def test_saved_requests_and_replies_are_shown_verbatim(open_page, page, site_with_saved_requests):
    """Markup in them is shown as text."""
    [run] = page.request.get(f"{site_with_saved_requests}api/runs").json()
    open_page(f"{site_with_saved_requests}#/run/{run['id']}/row/1")
    call = page.locator("section", has_text="Requests").locator("details")
    expect(call).to_have_count(1)
    call.locator("summary").click()
    expect(call).to_contain_text("please <i>come</i>")
    expect(call).to_contain_text("<b>it is</b>")


def test_tokens_of_model_and_judge_are_shown_separately(open_page, page, serve, tmp_path):
    rubric = Rubric.from_dict([{"requirement": "Is polite", "name": "polite"}])
    with ModelServer("please") as model, ModelServer("MET") as judge:
        SingleTurnEnv([{"question": "Say please."}], rubric=rubric).evaluate_sync(
            model=model.model,
            judge=PerCriterionGrader(judge.model),
            price=Price(input=1, output=2),
            run=tmp_path / "run",
        )
        model_tokens = model.prompt_tokens + model.completion_tokens
        judge_tokens = judge.prompt_tokens + judge.completion_tokens
    site = serve(tmp_path / "run")
    [run] = page.request.get(f"{site}api/runs").json()
    open_page(f"{site}#/run/{run['id']}")
    tokens = page.locator(".tile", has_text="Tokens")
    expect(tokens).to_contain_text(f"model {model_tokens:,}, judge {judge_tokens:,}")
    expect(page.locator(".tile", has_text="Cost")).to_contain_text("judge not known")


@pytest.fixture
def site_with_tool_judge(serve, tmp_path):
    """A run whose judge has read a file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("x = 1")
    verdict = json.dumps({"explanation": 'It sets "x = 1".', "criterion_status": "MET"})

    def judge(messages):
        return verdict if messages[-1]["role"] == "tool" else tool_call("read_file", path="a.py")

    rubric = Rubric.from_dict([{"requirement": "Sets x", "name": "sets_x"}])
    with ModelServer(judge) as server:
        grader = ToolJudge([Workspace(tmp_path / "work")], model=server.model)
        asyncio.run(
            score_rows(
                rubric,
                [{"completion": "Done."}],
                folder=tmp_path / "run",
                judge=grader,
                save_requests=True,
            )
        )
    return serve(tmp_path / "run")


def test_a_tool_call_of_the_judge_is_shown_and_linked(open_page, page, site_with_tool_judge):
    """What it quotes from a file is in the log of the judge, which opens there."""
    [run] = page.request.get(f"{site_with_tool_judge}api/runs").json()
    open_page(f"{site_with_tool_judge}#/run/{run['id']}/row/1")
    expect(page.locator(".line .reason")).to_contain_text("(looked at: read_file(path: a.py))")
    expect(page.locator(".evidence .missing")).to_have_count(0)
    page.get_by_role("button", name="look1 “x = 1”").click()
    tool_result = page.locator("section", has_text="Requests").locator(".role-tool.pointed")
    expect(tool_result).to_be_visible()
    expect(tool_result).to_contain_text("x = 1")


def test_raw_text_is_one_click_away(open_page, run):
    page = open_page(f"{run}/row/4")
    expect(page.locator(".said .code code")).to_have_text("print(7)\n")
    page.get_by_role("button", name="Raw text").click()
    expect(page.locator(".said pre.raw").last).to_contain_text("```python")
    page.get_by_role("button", name="Rendered").click()
    expect(page.locator(".said .code")).to_be_visible()


def test_a_failed_row_shows_its_error(open_page, run):
    page = open_page(f"{run}/row/12")
    expect(page.locator(".row-head [role=alert]")).to_contain_text(
        "ConnectionError: the endpoint is gone"
    )
    expect(page.locator(".row-score")).to_contain_text("unscored")


def test_a_missing_row_shows_an_error(open_page, run):
    page = open_page(f"{run}/row/4000")
    expect(page.get_by_role("alert")).to_contain_text("there is no row 4000")
    assert [problem for problem in page.problems if "404" in problem]
    page.problems.clear()


def test_a_group_shows_advantages(open_page, run):
    """Rewards 2 and 0 have a mean of 1, so one is 1 above and one 1 below."""
    page = open_page(f"{run}/group/e0")
    expect(page.locator("h1")).to_contain_text("2 rollouts, mean reward 1.000")
    expect(page.locator(".advantage").first).to_contain_text("advantage +1.000")
    expect(page.locator(".advantage").last).to_contain_text("advantage −1.000")
    page.get_by_role("link", name="Sample 1", exact=True).click()
    expect(page.locator("h1")).to_contain_text("Row 2")


def test_several_runs_can_be_picked_and_compared(open_page, two_runs):
    """Every answer of the second run has a score of 0.75, more than any of the first."""
    page = open_page(two_runs)
    page.get_by_role("link", name="politer").click()
    expect(page.locator(".tile").first).to_contain_text("0.750")
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text(
        "politer is better than manners"
    )
    expect(page.get_by_role("region", name="Result", exact=True)).to_contain_text(
        "20 examples in both runs"
    )
    page.locator(".flips tbody tr").first.get_by_role("button", name="Side by side").click()
    transcripts = page.locator(".transcripts .rollout-card")
    expect(transcripts).to_have_count(2)
    expect(transcripts.first.get_by_label("user message")).to_be_visible()
    page.locator(".flips tbody tr").first.get_by_role("link").first.click()
    expect(page.locator("h1")).to_contain_text("Row")


def test_a_comparison_can_be_filtered_to_rows_where_one_side_passes(open_page, serve, tmp_path):
    """Both results change, and only that of the first example from a pass to a failure."""
    from assay import Rubric
    from assay.concurrency import run_sync
    from assay.runs import score_rows

    rubric = Rubric.from_dict([{"check": {"contains": "yes"}}, {"check": {"contains": "please"}}])
    folders = []
    for name, answers in {"before": ["yes please", "yes"], "after": ["yes", "no"]}.items():
        data = [{"id": f"e{n}", "completion": answer} for n, answer in enumerate(answers)]
        run_sync(score_rows(rubric, data, folder=tmp_path / name))
        folders.append(tmp_path / name)
    page = open_page(serve(*folders))
    page.get_by_role("link", name="Compare").click()
    rows = page.locator(".flips tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Only where one passes and the other fails").check()
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("e0")


def test_one_run_is_chosen_from_the_header(open_page, two_runs):
    page = open_page(two_runs)
    page.get_by_role("link", name="manners", exact=True).first.click()
    page.get_by_label("Run", exact=True).select_option(label="politer")
    expect(page.locator("h1")).to_have_text("Overview of politer")


@pytest.mark.slow
def test_a_run_that_is_being_written_grows_in_the_page(
    open_page, serve, tmp_path, make_run, run_folder
):
    """Ten rows, and then ten more while somebody looks."""
    from assay.runs import Journal, Run

    whole = Run.open(run_folder)
    site_with_saved_requests = list(whole.rows())
    with Journal.open(tmp_path / "live", whole.about) as journal:
        for row in site_with_saved_requests[:10]:
            journal.write(row)
        page = open_page(f"{serve(tmp_path / 'live')}#/")
        expect(page.get_by_text("live", exact=True).locator("visible=true").first).to_be_visible()
        page.get_by_role("link", name="Rows", exact=True).click()
        expect(page.locator(".total")).to_have_text("10 rows")
        for row in site_with_saved_requests[10:20]:
            journal.write(row)
        expect(page.locator(".total")).to_have_text("20 rows")
        journal.finish()
    expect(page.locator("#header .live")).to_be_hidden()


def test_texts_of_rows_can_be_read_side_by_side(open_page, run):
    """Prompt, reference and answer wrapped in columns of equal width, and remembered."""
    page = open_page(f"{run}/rows")
    page.get_by_role("button", name="Side by side").click()
    heads = page.locator("table.rows thead th")
    for place, title in enumerate(("Row", "Prompt", "Reference", "Answer", "Score")):
        expect(heads.nth(place)).to_contain_text(title)
    first = page.locator("table.rows tbody tr:not(.spacer)").first
    expect(first).to_contain_text("Question 0")
    assert first.bounding_box()["height"] > 100
    page.reload()
    expect(page.get_by_role("button", name="Side by side")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_columns_of_the_data_can_be_shown(open_page, serve, tmp_path):
    """They are offered by name, and a column with one value in all rows is left out at first."""
    from assay import Rubric
    from assay.concurrency import run_sync
    from assay.runs import score_rows

    data = [{"completion": "yes", "city": city} for city in ("Rome", "Bern")]
    rubric = Rubric.from_dict([{"check": {"contains": "yes"}}])
    run_sync(score_rows(rubric, data, folder=tmp_path / "run"))
    page = open_page(f"{serve(tmp_path / 'run')}#/")
    page.get_by_role("link", name="Rows", exact=True).click()
    expect(page.locator("table.rows tbody")).not_to_contain_text("default")
    page.locator(".chooser summary").click()
    page.get_by_label("city").check()
    expect(page.locator("table.rows tbody")).to_contain_text("Bern")


def test_the_overview_lists_the_worst_rows_with_a_reason(open_page, site):
    page = open_page(site)
    worst = page.get_by_role("region", name="Worst")
    expect(worst.locator("li").first).to_contain_text("polite")
    expect(worst.locator("li").first.get_by_role("link")).to_be_visible()


def test_the_list_of_runs_shows_how_they_scored(open_page, two_runs):
    page = open_page(two_runs)
    row = page.get_by_role("row").filter(has_text="politer")
    expect(row).to_contain_text("0.750")
    expect(row).to_contain_text("0.750 to 0.750")


def test_one_rollout_can_be_read_side_by_side(open_page, run):
    """With the reference beside prompt and completion."""
    page = open_page(f"{run}/row/1")
    page.get_by_role("button", name="Side by side").click()
    boxes = [
        page.get_by_role("region", name=name, exact=True).bounding_box()
        for name in ("Prompt", "Reference", "Completion")
    ]
    assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]
