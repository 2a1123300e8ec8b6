"""MathRubric: which answer is read, what it is worth, and what is said about it."""

import asyncio
import copy
import logging
import pickle
import subprocess
import sys
from dataclasses import fields

import pytest

from assay import (
    GradingError,
    MathOptions,
    MathRubric,
    MathVerdict,
    MaybeThinkParser,
    Parser,
    Rubric,
    RubricError,
    RubricGroup,
    XMLParser,
    extract_boxed_answer,
)
from assay.checks import MathEqual
from assay.isolation import Outcome
from assay.testing import make_state


async def reward(rubric, completion, answer="4"):
    state = {"completion": completion, "answer": answer}
    await rubric.score_rollout(state)
    return state["reward"]


@pytest.fixture
def verdicts(monkeypatch):
    """Puts verdicts of our own in the place of comparisons, and keeps what was asked."""

    def replace(*given):
        asked = []

        async def verify_many_async(pairs, **options):
            pairs = list(pairs)
            asked.append((pairs, options))
            return [given[place % len(given)] for place in range(len(pairs))]

        monkeypatch.setattr("assay.math.verify_many_async", verify_many_async)
        return asked

    return replace


class TestWhatIsRead:
    @pytest.mark.parametrize(
        ("completion", "worth"),
        [
            ("\\boxed{4}", 1.0),
            ("It is \\boxed{5}. No: \\boxed{4}", 1.0),
            ("<think>\\boxed{5}</think>\\boxed{4}", 1.0),
            ("4", 1.0),
            ([{"role": "assistant", "content": [{"type": "text", "text": "\\boxed{4}"}]}], 1.0),
            ([{"role": "user", "content": "\\boxed{4}"}], None),
            ([], None),
            ("<think>\\boxed{4}", 0.0),
        ],
    )
    async def test_the_default_parser_reads_the_last_box_after_any_thought(self, completion, worth):
        """Without a box, the whole text."""
        assert await reward(MathRubric(), completion) == worth

    @pytest.mark.parametrize(
        ("completion", "worth"),
        [
            ("It is \\boxed{4}", 1.0),
            ("<think>5</think> \\boxed{4}", 1.0),
            ("<answer>\\boxed{4}</answer>", 1.0),
            ("4", 0.0),
            ("x = 4", 0.0),
            ("\\boxed{4", 0.0),
            ("<think>\\boxed{4}</think> 4", 0.0),
            ("<think>\\boxed{4}", 0.0),
            ("", 0.0),
        ],
    )
    async def test_strict_pays_for_a_box_alone(self, completion, worth):
        """Whatever parser the other functions read with."""
        assert await reward(MathRubric(strict=True), completion) == worth
        parsers = (XMLParser(["think", "answer"]), Parser(), MaybeThinkParser(extract_boxed_answer))
        for parser in parsers:
            assert await reward(MathRubric(strict=True, parser=parser), completion) == worth

    async def test_strict_says_that_there_is_no_box(self):
        """And the default parser reads nothing either."""
        rubric = MathRubric(strict=True)
        report = await rubric.grade("It is 4.", answer="4")
        assert (report.score, report.report[0].reason) == (0.0, "no boxed answer")
        assert rubric.parser.parse_answer("It is 4.") == ""

    async def test_a_parser_for_tags_reads_the_tag(self):
        """A box inside it is opened."""
        rubric = MathRubric([], [], parser=XMLParser(["think", "answer"]))
        assert await reward(rubric, "<think>5</think><answer>4</answer>") == 1.0
        assert await reward(rubric, "<think>5</think><answer>\\boxed{4}</answer>") == 1.0
        assert await reward(rubric, "<think>4</think><answer>5</answer>") == 0.0
        assert await reward(rubric, "4") == 0.0

    async def test_the_parser_of_the_rubric_may_be_changed(self):
        """As of any rubric."""
        rubric = MathRubric()
        rubric.parser = XMLParser(["answer"])
        assert await reward(rubric, "<answer>4</answer>") == 1.0

    async def test_without_extraction_the_whole_text_is_the_answer(self, verdicts):
        """The parser is not asked. Reasoning is not part of the answer."""
        asked = verdicts(MathVerdict("equal", "", "normalize"))
        await reward(MathRubric(extract_answer=False), "<think>5</think> \\boxed{4}")
        assert asked[0][0] == [("4", "\\boxed{4}")]

    async def test_a_parser_that_raises_fails_its_rollout_alone(self):
        """The reader is somebody's code."""

        def only_short(text):
            if len(text) > 3:
                raise ValueError("too long for me")
            return text

        states = [make_state("4", answer="4"), make_state("4 and more", answer="4")]
        await MathRubric(parser=Parser(only_short)).score_group(states)
        assert [state["reward"] for state in states] == [1.0, None]
        assert states[1]["errors"] == {"correct_answer": "ValueError: too long for me"}
        assert states[1]["advantage"] is None

    @pytest.mark.parametrize("gold", [4, 4.0, "4", " 4 ", "$4$", "\\boxed{4}"])
    async def test_the_right_answer_may_be_a_number_or_dressed_up(self, gold):
        """Datasets have them all."""
        assert await reward(MathRubric(), "\\boxed{4}", gold) == 1.0

    async def test_a_list_of_right_answers_is_the_list(self):
        """Of both roots."""
        assert await reward(MathRubric(), "\\boxed{1, 2}", [1, 2]) == 1.0


class TestRules:
    async def test_without_normalization_units_and_assignments_are_part_of_an_answer(self):
        """By default they are not."""
        for completion in ("\\boxed{4 \\text{ cm}}", "\\boxed{x = 4}"):
            assert await reward(MathRubric(), completion) == 1.0
            assert await reward(MathRubric(normalize=False), completion) == 0.0
        assert await reward(MathRubric(normalize=False), "\\boxed{4.0}") == 1.0

    async def test_options_go_to_the_comparison(self, verdicts):
        """With the limit."""
        asked = verdicts(MathVerdict("equal", "", "normalize"))
        options = MathOptions(tolerance=0.01, units=True, solved=False)
        await reward(MathRubric(options=options, timeout_seconds=2), "4")
        assert asked[0][1] == {"options": options, "timeout": 2, "at_once": 50}
        await reward(MathRubric(options=options, normalize=False), "4")
        assert asked[1][1]["options"] == MathOptions(
            tolerance=0.01, units=False, assignments=False, solved=False
        )

    async def test_an_answer_must_be_solved_unless_the_options_say_otherwise(self):
        """Options about something else leave it on."""
        handed_back = "\\boxed{2x = 8}"
        assert await reward(MathRubric(), handed_back, "x = 4") == 0.0
        assert (
            await reward(MathRubric(options=MathOptions(tolerance=0.01)), handed_back, "x = 4")
            == 0.0
        )
        assert (
            await reward(MathRubric(options=MathOptions(solved=False)), handed_back, "x = 4") == 1.0
        )

    def test_the_check_has_every_rule_under_its_name(self):
        """So that a file can give them."""
        assert {f.name for f in fields(MathOptions)} <= {f.name for f in fields(MathEqual)}
        assert MathEqual().options == MathOptions(solved=True)
        assert MathEqual(tolerance=0.5).options == MathOptions(tolerance=0.5, solved=True)


class TestWhatIsSaid:
    async def test_a_report_says_why(self):
        """In words, with the verdict."""
        rubric = MathRubric()
        states = [
            make_state("\\boxed{0.5}", answer="1/2"),
            make_state("\\boxed{0.4}", answer="1/2"),
        ]
        right, wrong = await rubric.score_group(states)
        assert (right.report[0].verdict, wrong.report[0].verdict) == ("MET", "UNMET")
        assert right.report[0].reason
        assert wrong.report[0].reason
        assert right.report[0].reason != wrong.report[0].reason
        assert states[0]["metrics"] == {"correct_answer": 1.0}

    @pytest.mark.parametrize(
        "status", ["different", "no_answer", "answer_unparsable", "out_of_time", "too_large"]
    )
    async def test_what_the_model_wrote_is_worth_nothing(self, verdicts, status):
        """Zero with a reason, and no error."""
        verdicts(MathVerdict(status, f"it is {status}", "symbolic"))
        report = await MathRubric().grade("4", answer="4")
        assert (report.score, report.scored) == (0.0, True)
        assert report.report[0].reason == f"it is {status}"

    @pytest.mark.parametrize("status", ["gold_unparsable", "error"])
    async def test_what_the_model_did_not_write_is_an_error(self, verdicts, status):
        """Missing is never zero."""
        verdicts(
            MathVerdict("equal", "fine", "normalize"),
            MathVerdict("different", "no", "normalize"),
            MathVerdict(status, "nobody knows", "symbolic"),
        )
        states = [make_state("4", answer="4") for _ in range(3)]
        reports = await MathRubric().score_group(states)
        assert [report.scored for report in reports] == [True, True, False]
        assert [state["advantage"] for state in states] == [0.5, -0.5, None]
        assert states[2]["errors"] == {"correct_answer": "GradingError: nobody knows"}
        assert states[2]["metrics"] == {}

    async def test_by_hand_it_is_raised(self, verdicts):
        """There is no number to give."""
        verdicts(MathVerdict("gold_unparsable", "the gold is not mathematics", "normalize"))
        rubric = MathRubric()
        with pytest.raises(GradingError, match=r"\Athe gold is not mathematics\Z"):
            await rubric.correct_answer(rubric.parser, "4", "?")

    async def test_a_rollout_without_a_right_answer_is_an_error(self):
        """Nothing can be right there."""
        state = {"completion": "\\boxed{4}"}
        await MathRubric().score_rollout(state)
        assert "correct_answer" in state["errors"]

    async def test_a_rollout_without_a_completion_fails_alone(self):
        """The rest of the group is scored."""
        states = [{"completion": "4", "answer": "4"}, {"answer": "4"}]
        await MathRubric().score_group(states)
        assert states[0]["reward"] == 1.0
        assert "'completion'" in states[1]["errors"]["correct_answer"]

    @pytest.mark.parametrize(
        ("settings", "level"), [({}, logging.DEBUG), ({"timeout_seconds": 120}, logging.WARNING)]
    )
    async def test_running_out_of_time_is_logged(self, verdicts, caplog, settings, level):
        """For those who look closely; for everybody when it is the hard limit."""
        verdicts(MathVerdict("out_of_time", "still comparing", "symbolic"))
        with caplog.at_level(logging.DEBUG, logger="assay"):
            await reward(MathRubric(**settings), "4")
        assert [record.levelno for record in caplog.records] == [level]
        assert "1 of 1 answers" in caplog.text

    async def test_the_hard_limit_is_the_most_that_is_waited(self, verdicts):
        """A class of its own may have another."""

        class Hasty(MathRubric):
            HARD_TIMEOUT_SECONDS = 1.5

        asked = verdicts(MathVerdict("equal", "", "normalize"))
        await reward(Hasty(timeout_seconds=30), "4")
        await reward(Hasty(timeout_seconds=1), "4")
        assert [options["timeout"] for _, options in asked] == [1.5, 1]


class TestBatches:
    async def test_a_batch_is_compared_in_one_call(self, verdicts):
        """Whichever door it comes in by."""
        asked = verdicts(MathVerdict("equal", "", "normalize"))
        states = [make_state("4", answer="4") for _ in range(3000)]
        await MathRubric().score_group(states)
        await MathRubric().score(states)
        group = RubricGroup([MathRubric(), Rubric([lambda: 1.0])])
        await group.score_group(states)
        assert [len(pairs) for pairs, _ in asked] == [3000, 3000, 3000]
        assert {state["reward"] for state in states} == {2.0}

    async def test_other_work_goes_on_while_a_batch_is_read(self, verdicts):
        """The event loop is given back many times."""
        verdicts(MathVerdict("equal", "", "normalize"))
        text = "So \\boxed{1} and $x^{2}$. " * 200 + "\\boxed{4}"
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await MathRubric().score_group([make_state(text, answer="4") for _ in range(1000)])
        task.cancel()
        assert turns > 10

    def test_every_sync_door_works(self):
        """Names, numbers and columns."""
        rubric = MathRubric()
        assert rubric.score_rollout_sync(completion="\\boxed{4}", answer="4") == {
            "correct_answer": 1.0,
            "reward": 1.0,
        }
        scores = rubric.score_rollouts(["q", "q"], ["\\boxed{4}", "5"], ["4", "4"])
        assert scores == {"correct_answer": [1.0, 0.0], "reward": [1.0, 0.0]}

    async def test_no_more_than_max_workers_comparisons_are_with_the_workers(self, monkeypatch):
        """Of seven that only they can make, three at a time."""
        running, most = 0, 0

        class Workers:
            async def run(self, function, *args, **options):
                nonlocal running, most
                running += 1
                most = max(most, running)
                for _ in range(5):
                    await asyncio.sleep(0)
                running -= 1
                return Outcome({"equal": True, "gold": True, "answer": True})

        monkeypatch.setattr("assay.math.verification._pool", Workers)
        limits = [rf"\boxed{{\lim_{{x \to 0}} \frac{{\sin({n + 1}x)}}{{x}}}}" for n in range(7)]
        states = [make_state(limit, answer="4") for limit in limits]
        await MathRubric(max_workers=3, options=MathOptions(solved=False)).score_group(states)
        assert most == 3
        assert [state["reward"] for state in states] == [1.0] * 7

    async def test_a_hostile_answer_takes_nothing_from_its_neighbours(self):
        """Two hundred right answers beside a tower of powers and deep nesting."""
        hostile = ["9^{9^{9^{9}}}", "(" * 5000 + "1" + ")" * 5000, "\\frac{1}{" * 300, "10^{9}!"]
        texts = [f"\\boxed{{{text}}}" for text in hostile] + ["\\boxed{4}"] * 200
        states = [make_state(text, answer="4") for text in texts]
        await MathRubric(timeout_seconds=1).score_group(states)
        assert [state["reward"] for state in states] == [0.0] * 4 + [1.0] * 200
        assert all("errors" not in state for state in states)


class TestTheObject:
    @pytest.mark.parametrize(
        ("module", "package"), [("flint", "python-flint"), ("math_verify", "math-verify")]
    )
    def test_a_missing_package_is_named_at_construction(self, module, package):
        """With what to install; in a fresh interpreter, since this one has it."""
        code = f"import sys; sys.modules[{module!r}] = None; import assay; assay.MathRubric()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("assay.errors.MissingExtraError: mathematics needs the package")
        assert package in last
        assert "[math]'" in last

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"max_workers": 0}, "max_workers is 0"),
            ({"max_workers": 2.5}, "max_workers is 2.5"),
            ({"max_workers": True}, "max_workers is True"),
            ({"timeout_seconds": 0}, "timeout_seconds is 0"),
            ({"timeout_seconds": -1}, "timeout_seconds is -1"),
            ({"timeout_seconds": float("nan")}, "timeout_seconds is nan"),
            ({"timeout_seconds": float("inf")}, "timeout_seconds is inf"),
            ({"timeout_seconds": "5"}, "timeout_seconds is '5'"),
            ({"strict": True, "extract_answer": False}, "give one of them"),
            ({"weights": [1.0]}, "Number of weights"),
        ],
    )
    def test_settings_that_cannot_be_are_refused(self, settings, words):
        """At construction, with the value."""
        with pytest.raises(RubricError, match=words):
            MathRubric(**settings)

    async def test_a_subclass_may_have_its_own_idea_of_a_correct_answer(self):
        """Under the same name."""

        class Lenient(MathRubric):
            async def correct_answer(self, parser, completion, answer, **kwargs):
                return 0.5 + 0.5 * await super().correct_answer(parser, completion, answer)

        assert await reward(Lenient(), "5") == 0.5
        assert await reward(Lenient(), "4") == 1.0

    async def test_its_method_serves_in_another_rubric(self):
        """As any function."""
        rubric = Rubric(
            [MathRubric().correct_answer], [2.0], MaybeThinkParser(extract_boxed_answer)
        )
        assert await reward(rubric, "\\boxed{4}") == 2.0

    async def test_two_rubrics_share_nothing(self):
        """A function added to one stays there."""
        one, two = MathRubric(), MathRubric()
        one.add_reward_func(lambda: 1.0)
        assert (len(one), len(two)) == (2, 1)

    async def test_copies_score_alike(self):
        """Pickled, or copied in depth."""
        rubric = MathRubric(strict=True, options=MathOptions(tolerance=0.1))
        for twin in (pickle.loads(pickle.dumps(rubric)), copy.deepcopy(rubric)):
            assert twin.content_hash == rubric.content_hash
            assert await reward(twin, "\\boxed{4}") == 1.0

    def test_what_counts_as_the_same_is_part_of_its_hash(self):
        """Numbers from other rules must not be mixed."""
        rubrics = [
            MathRubric(),
            MathRubric(strict=True),
            MathRubric(normalize=False),
            MathRubric(options=MathOptions(tolerance=0.1)),
        ]
        assert len({rubric.content_hash for rubric in rubrics}) == 4

    async def test_it_can_be_written_to_a_file_and_read_back(self):
        """`math_equal` is a check that a file can name."""
        rubric = MathRubric(options=MathOptions(tolerance=0.1))
        data = rubric.to_dict()
        assert data == {
            "criteria": [{"name": "correct_answer", "check": {"math_equal": {"tolerance": 0.1}}}]
        }
        again = MathRubric.from_dict(data, options=MathOptions(tolerance=0.1))
        assert again.get_reward_func_names() == ["correct_answer"]
        assert again.content_hash == rubric.content_hash
        plain = Rubric.from_dict(data)
        assert await reward(plain, "It is \\boxed{4.1}.") == 1.0


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("The answer is 1.", 1.0),
        ("Step 2: the answer is 1", 1.0),
        ("I get 1, then 1", 1.0),
        ("I get 5, then 1", 0.0),
        ("First 5. Then 1.", 0.0),
        ("I get $5$, then $1$", 0.0),
        ("I get $5$, then 1", 0.0),
    ],
)
def test_the_last_of_several_numbers_is_no_answer(text, reward):
    """Unless the text says that it is."""
    assert MathRubric().score_rollout_sync(completion=text, answer="1")["reward"] == reward
