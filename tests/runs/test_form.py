"""A row that is saved and read back is unchanged."""

import json
import math
import pickle
from datetime import date

import pytest

from assay import (
    Criterion,
    EarlyStop,
    Panel,
    PerCriterionGrader,
    Rubric,
    RubricAsJudgeGrader,
    RubricGroup,
    Score,
)
from assay.graders import LengthPenalty
from assay.runs import Journal, Row, Run, RunAbout, RunError
from assay.runs.pipeline import SeenTexts
from assay.runs.row import RowForm, names_of
from assay.runs.run_file import RunFile
from assay.runs.spending import Spending
from assay.testing import FakeModel, make_rollout


def make_judged_rubric(*fields, reply="MET", **options):
    grader = PerCriterionGrader(generate_fn=FakeModel(reply), **options)
    return Rubric([Criterion(**criterion_fields) for criterion_fields in fields], judge=grader)


def make_fixed_check(value, **fields):
    return Criterion(check=lambda: value, **fields)


KIND, BRIEF = {"requirement": "Is kind"}, {"requirement": "Is brief", "weight": -2}
RUBRICS = {
    "numbers": Rubric(
        [make_fixed_check(0.25), make_fixed_check(True, weight=2), make_fixed_check(3)]
    ),
    "a check that says more": Rubric(
        [make_fixed_check(Score(0.5, reason="half of them"), tags=["a", "b"])]
    ),
    "a check that fails": Rubric([make_fixed_check(None, name="broken"), make_fixed_check(1.0)]),
    "a metric that fails": Rubric(
        [make_fixed_check(None, weight=0, name="broken"), make_fixed_check(1.0)]
    ),
    "verdicts": make_judged_rubric(KIND, BRIEF),
    "a judge that fails": make_judged_rubric(KIND, BRIEF, reply=ValueError("no")),
    "choices": make_judged_rubric(
        {"requirement": "Is clear", "choices": ("bad", "so-so", "good"), "allow_na": True},
        reply={"choice": "so-so", "explanation": "words\nand more"},
    ),
    "not applicable": make_judged_rubric(
        {"requirement": "Labels the table", "allow_na": True},
        reply={"choice": "N/A", "explanation": ""},
    ),
    "a veto": Rubric(
        [
            make_fixed_check(False, required=True, cap=0.2, name="safe"),
            make_fixed_check(1.0, weight=3),
        ]
    ),
    "a condition": Rubric(
        [make_fixed_check(False, name="a"), make_fixed_check(1.0, name="b", when="a")]
    ),
    "report only": Rubric(
        [make_fixed_check(True), make_fixed_check(False, weight=9, report_only=True)]
    ),
    "only metrics": Rubric([make_fixed_check(0.5, weight=0)]),
    "a sum": Rubric([make_fixed_check(2.0), make_fixed_check(3.0)], aggregation="sum"),
    "a mean": Rubric([make_fixed_check(0.5), make_fixed_check(1.0, weight=-1)], aggregation="mean"),
    "a formula": Rubric(
        [make_fixed_check(0.5), make_fixed_check(1.0)], aggregation=lambda lines: len(lines) / 3
    ),
    "a raw judge": make_judged_rubric(KIND, BRIEF, normalize=False),
    "a length penalty": make_judged_rubric(
        KIND, length_penalty=LengthPenalty(free_budget=0, max_cap=1, penalty_at_cap=0.5)
    ),
    "a judge of the whole": Rubric(
        [KIND, make_fixed_check(0.5)], judge=RubricAsJudgeGrader(generate_fn=FakeModel(80))
    ),
    "a panel": Rubric(
        [KIND],
        judge=Panel(
            [PerCriterionGrader(FakeModel("MET")), PerCriterionGrader(FakeModel("UNMET"))],
            rule="mean",
        ),
    ),
    "an early stop": Rubric(
        [KIND, {"requirement": "Is legal", "required": True}],
        judge=EarlyStop(PerCriterionGrader(FakeModel("UNMET"))),
    ),
    "a group": RubricGroup(
        [
            Rubric([make_fixed_check(1.0, name="x")]),
            make_judged_rubric(KIND),
            Rubric([make_fixed_check(0.5, name="x")]),
        ]
    ),
    "a rubric inside": Rubric(
        [
            make_fixed_check(1.0),
            make_judged_rubric(KIND, BRIEF).as_criterion(weight=0.3, name="essay"),
        ]
    ),
}


@pytest.mark.parametrize("name", RUBRICS)
async def test_a_saved_report_is_read_back_equal(tmp_path, name):
    """Including lines, reasons, votes, errors and sums, for every kind of rubric."""
    rubric = RUBRICS[name]
    reports = await rubric.score([make_rollout(completion="Yes, all of it."), make_rollout()])
    rows = [Row(str(n), fields={"n": n}, report=report) for n, report in enumerate(reports)]
    with Journal.open(tmp_path, RunAbout.of("score", rubric=rubric)) as journal:
        journal.write_all(rows)
        summary = journal.finish()
    run = Run.open(tmp_path)
    saved_rows = list(run.rows())
    assert [row.report for row in saved_rows] == reports
    assert [list(row.report.lines) for row in saved_rows] == [list(r.lines) for r in reports]
    assert [(r.scored, r.reward, r.score, r.errors, r.report.tag_scores) for r in saved_rows] == [
        (r.scored, r.reward, r.score, r.errors, r.report.tag_scores) for r in rows
    ]
    assert run.work_out() == run.summary() == summary


@pytest.mark.parametrize("name", RUBRICS)
def test_the_saved_description_of_a_rubric_is_read_back_equal(tmp_path, name):
    """Report lines are rebuilt from it."""
    about = RunAbout.of("score", rubric=RUBRICS[name])
    assert RunAbout.from_dict(json.loads(json.dumps(about.to_dict()))) == about
    assert about.differences(RunAbout.from_dict(about.to_dict())) == []


async def test_a_plain_row_is_saved_compactly():
    """Names, weights and requirements are saved once, in the metadata of the run."""
    rubric = Rubric([make_fixed_check(True, name="a"), make_fixed_check(0.5, name="b")])
    [report] = await rubric.score([make_rollout()])
    row = Row("7", fields={"completion": "x"}, report=report)
    saved = RowForm(rubric.criteria, rubric.content_hash).save(row)
    assert saved.data == (
        '{"example":"7","sample":0,"score":0.75,"reward":1.5,"answers":[true,0.5],'
        '"fields":{"completion":"x"}}'
    )


async def test_a_row_is_saved_with_columns_for_filtering():
    """Verdicts are saved with their criterion and their judge."""
    rubric = RUBRICS["verdicts"]
    [report] = await rubric.score([make_rollout()])
    spent = Spending(calls=2, prompt=90, completion=10, cost=0.5)
    row = Row("7", 1, {"task": "capitals"}, report, spent=spent, timing={"scoring": 2.0}, number=4)
    saved = RowForm(rubric.criteria, judge="judge-1").save(row)
    assert saved[:5] == ("7", 1, 4, "capitals", row.score)
    assert (saved.input_tokens, saved.output_tokens, saved.cost, saved.seconds) == (90, 10, 0.5, 2)
    assert [(v.criterion, v.value, v.verdict, v.judge) for v in saved.verdicts] == [
        ("is_kind", 1.0, "MET", "judge-1"),
        ("is_brief", 1.0, "MET", "judge-1"),
    ]


async def test_an_unscored_row_is_saved_without_a_score():
    """Readers with other tools must not mistake a partial reward for the reward."""
    rubric = Rubric([make_fixed_check(True, name="a"), make_fixed_check(None, name="b")])
    [report] = await rubric.score([make_rollout()])
    saved = RowForm(rubric.criteria).save(Row("7", report=report))
    line = json.loads(saved.data)
    assert (saved.score, saved.reward) == (None, None)
    assert saved.error.startswith("b: ")
    assert (line["score"], line["reward"], line["report"]["partial_reward"]) == (None, None, 1.0)
    assert list(line["errors"]) == ["b"]


FIELDS = {
    "unicode": {"completion": 'naïve 日本 🙂 \u2028 \x00 \\ " \n'},
    "half a character": {"completion": "before \ud83d after", "id": "\udc00"},
    "nothing": {},
    "deep": {"info": {"a": [1, 2.5, None, True, {"b": "c"}]}},
    "five megabytes": {"completion": "x" * 5_000_000},
    "large numbers": {"n": 10**300, "small": 5e-324},
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_read_back_unchanged(tmp_path, name):
    """Every text and number that JSON can hold."""
    row = Row('é\ud800"\\', 3, FIELDS[name])
    with Journal.open(tmp_path, RunAbout.of("score")) as journal:
        journal.write(row)
    run = Run.open(tmp_path)
    assert list(run.rows()) == [row]
    assert run.row(*row.key) == row


class Record:
    def model_dump(self):
        return {"role": "assistant", "at": date(2026, 1, 31)}


ALTERED = {
    "nan": (math.nan, "NaN"),
    "infinity": ([-math.inf, math.inf], ["-Infinity", "Infinity"]),
    "bytes": (b"ab", "b'ab'"),
    "a set": ({1}, [1]),
    "a date": (date(2026, 1, 31), "2026-01-31"),
    "a record": ([Record()], [{"role": "assistant", "at": "2026-01-31"}]),
    "an object": (len, "<built-in function len>"),
    "a key that is not text": ({(1, 2): 3}, {"(1, 2)": 3}),
    "an endless number": (1 << 20_000, f"{1 << 20_000:#x}"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_a_field_that_json_cannot_hold_is_saved_approximately_and_marked(tmp_path, name):
    """The nearest value is saved, and the row lists the altered fields."""
    value, written = ALTERED[name]
    with Journal.open(tmp_path, RunAbout.of("score")) as journal:
        journal.write(Row("0", fields={"info": value, "completion": "x"}))
        assert journal.finish().altered == 1
    [row] = Run.open(tmp_path).rows()
    assert (row.altered, row.fields["completion"]) == (("info",), "x")
    assert row.fields["info"] == written
    for (data,) in RunFile(tmp_path).select("SELECT data FROM rollouts"):
        json.loads(data, parse_constant=pytest.fail)


def test_a_value_that_contains_itself_is_cut(tmp_path):
    """It would never end."""
    loop = []
    loop.append(loop)
    with Journal.open(tmp_path, RunAbout.of("score")) as journal:
        journal.write(Row("0", fields={"info": loop}))
    [row] = Run.open(tmp_path).rows()
    assert row.altered == ("info",)


def test_a_row_can_be_pickled_with_its_report(tmp_path):
    """For users who pass it to another process."""
    with Journal.open(tmp_path, RunAbout.of("score")) as journal:
        journal.write(Row("0", fields={"n": 1}))
    [row] = Run.open(tmp_path).rows()
    assert pickle.loads(pickle.dumps(row)) == row


def test_a_report_that_does_not_fit_the_criteria_is_an_error(tmp_path):
    """The saved row was changed."""
    data = '{"example":"0","sample":0,"score":1,"reward":1,"answers":[{"weight":"x"}]}'
    with Journal.open(tmp_path, RunAbout.of("score", rubric=RUBRICS["numbers"])) as journal:
        saved = journal._form.save(Row("0"))
        journal.writer.save_rollouts([saved._replace(data=data)])
    with pytest.raises(RunError, match=r"run\.assay, rollout 1 cannot be read .its report"):
        list(Run.open(tmp_path).rows())


def test_seen_texts_recognizes_repeated_texts():
    """Including texts with lone surrogates and NUL characters."""
    seen = SeenTexts()
    texts = ["a", "b", "", "a\0", "half \ud83d", "half \ud83e"]
    assert [seen.add(text) for text in texts] == [True] * 6
    assert [seen.add(text) for text in texts] == [False] * 6


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["clear", "short"], ["clear", "short"]),
        (["clear"] * 3, ["clear", "clear_2", "clear_3"]),
        (["clear", "clear", "clear_2"], ["clear", "clear_2", "clear_2_2"]),
        (["clear", "clear_2", "clear"], ["clear", "clear_2", "clear_3"]),
    ],
)
def test_every_criterion_of_a_row_gets_a_different_name(names, expected):
    criteria = [Criterion(name=name, check=len) for name in names]
    assert names_of(criteria, is_row_rubric=False) == expected
