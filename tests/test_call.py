"""Functions get just the arguments they name, however they are made."""

import functools

import pytest

from assay import Rubric, SignatureError


def score(function, **state):
    """The one value of a rubric with one check, or the error in its place."""
    state = {"prompt": "q", "completion": "text", "answer": "a", **state}
    rubric = Rubric([function])
    [name] = rubric.get_reward_func_names()
    values = rubric.score_rollouts(
        [state.pop("prompt")], [state.pop("completion")], [state.pop("answer")], [state]
    )
    return values[name][0]


class Callable:
    def __call__(self, completion):
        return len(completion)


class AsyncCallable:
    async def __call__(self, completion, **kwargs):
        return len(completion)


class Owner:
    def method(self, completion, answer):
        return float(completion + answer == "texta")

    @staticmethod
    def static(completion):
        return 2.0

    @classmethod
    def of_class(cls, completion):
        return 3.0


def keyword_only(*, completion, answer="none"):
    return len(completion + answer)


def positional_only(completion, /, answer):
    return len(completion + answer)


def positional_only_and_all(completion, /, **kwargs):
    return len(kwargs.get("completion", completion))


def defaulted(completion, threshold=0.25):
    return threshold


def no_arguments():
    return 0.5


def star_arguments(*args, completion):
    return float(len(args)) + len(completion)


def wrapped(function):
    @functools.wraps(function)
    def wrapper(**kwargs):
        return function(**kwargs)

    return wrapper


@wrapped
def decorated(completion, answer):
    return len(completion + answer)


async def asynchronous(completion):
    return len(completion)


def returns_awaitable(completion):
    return asynchronous(completion)


CASES = {
    "object with __call__": (Callable(), 4.0),
    "object with async __call__": (AsyncCallable(), 4.0),
    "bound method": (Owner().method, 1.0),
    "static method": (Owner.static, 2.0),
    "class method": (Owner.of_class, 3.0),
    "keyword-only": (keyword_only, 5.0),
    "positional-only": (positional_only, 5.0),
    "positional-only beside **kwargs": (positional_only_and_all, 4.0),
    "defaulted": (defaulted, 0.25),
    "no arguments": (no_arguments, 0.5),
    "*args get nothing": (star_arguments, 4.0),
    "wrapper that takes keywords only": (decorated, 5.0),
    "async": (asynchronous, 4.0),
    "sync that returns an awaitable": (returns_awaitable, 4.0),
    "lambda": (lambda completion: 0.75, 0.75),
    "partial by keyword": (functools.partial(defaulted, threshold=0.5), 0.5),
    "partial of async": (functools.partial(asynchronous), 4.0),
    "partial by position": (functools.partial(lambda a, completion: a, 7), 7.0),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_callable_works(name):
    """Whatever can be called with named arguments is called with them."""
    function, expected = CASES[name]
    assert score(function) == expected


def test_a_column_of_the_dataset_can_be_named():
    """A field of the state is an argument like any other."""
    assert score(lambda difficulty: difficulty, difficulty=0.25) == 0.25


def test_a_column_goes_before_a_parameters_default():
    """The default is for rollouts that do not have the field."""
    assert score(defaulted, threshold=0.75) == 0.75


def test_what_a_partial_was_given_is_left_alone():
    """A keyword bound by the caller is not overruled by a field of that name."""
    assert score(functools.partial(defaulted, threshold=0.5), threshold=0.75) == 0.5


def test_a_partial_with_kwargs_keeps_what_it_was_given():
    """By keyword and by position."""

    def check(first, completion, threshold, **kwargs):
        return first + threshold

    bound = functools.partial(check, 1.0, threshold=0.5)
    assert score(bound, threshold=0.75, first=9.0) == 1.5


def test_class_objects_go_before_fields():
    """`add_class_object` wins over a field of the same name."""
    rubric = Rubric([lambda mark: mark])
    rubric.add_class_object("mark", 0.5)
    assert rubric.score_rollout_sync(state={"mark": 0.1})["reward"] == 0.5


def test_kwargs_hold_everything():
    """`**kwargs` gets the six names, every column and every class object."""
    seen = {}

    def check(**kwargs):
        seen.update(kwargs)
        return 1.0

    score(check, source="book")
    assert {"prompt", "completion", "answer", "task", "state", "info", "parser"} <= seen.keys()
    assert seen["source"] == "book"
    assert (seen["task"], seen["info"]) == ("default", {})


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (len, "'len'.*'obj'"),
        (max, "'max'"),
        (Owner.method, "'method'.*'self'"),
        (lambda completion, answers: 1.0, "'completion'.*'answers'"),
        (lambda completion, reward: 1.0, "'reward'"),
    ],
)
def test_what_cannot_be_called_is_refused_at_construction(function, words):
    """The sentence names the function and the parameter."""
    with pytest.raises(SignatureError, match=words):
        Rubric([function])


def test_returning_a_list_from_one_rollout_is_refused_at_construction():
    """A list is for groups, and a group takes plurals."""

    def confused(completion) -> list[float]:
        return [1.0]

    with pytest.raises(SignatureError, match=r"list.*'completion'"):
        Rubric([confused])


async def test_an_argument_that_no_rollout_has_is_an_error_of_the_check():
    """Not of the other checks: 0.5 is still answered. The error names the argument and the fields."""
    rubric = Rubric([lambda completion, source: 1.0, lambda completion: 0.5])
    state = {"prompt": "", "completion": "x"}
    report = await rubric.score_rollout(state)
    assert (state["reward"], state["partial_reward"]) == (None, 0.5)
    assert set(report.errors) == {"check_1"}
    assert "needs an argument 'source'" in report.errors["check_1"]
    assert "has no column 'source' (columns: completion, prompt)" in report.errors["check_1"]
    with pytest.raises(SignatureError, match="'source'"):
        await Rubric([lambda source: 1.0], on_error="raise").score_rollout({"completion": "x"})


async def test_an_argument_that_one_rollout_lacks_is_an_error_there_only():
    """The others are scored, and the one is kept out of the baseline."""
    rubric = Rubric([lambda source: float(source)])
    states = [{"source": 1}, {}, {"source": 3}]
    await rubric.score_group(states)
    assert [state["advantage"] for state in states] == [-1.0, None, 1.0]
    assert "'source'" in states[1]["errors"]["check_1"]


async def test_the_same_holds_in_later_chunks_of_a_long_batch():
    """A chunk in which nobody has the field is not taken for the whole batch."""
    rubric = Rubric([lambda source: float(source)])
    states = [{"source": 1.0}] + [{} for _ in range(1100)]
    await rubric.score_group(states)
    assert states[0]["reward"] == 1.0
    assert "errors" in states[1100]


async def test_a_field_that_an_earlier_check_leaves_can_be_named_by_a_later_one():
    """Checks of one rollout run in the order listed."""

    def first(state):
        state["found"] = 0.5
        return 1.0

    async def second(found):
        return found

    for later in (second, lambda found: found):
        state = {"prompt": "", "completion": ""}
        await Rubric([first, later]).score_rollout(state)
        assert state["reward"] == 1.5


async def test_a_group_function_is_known_by_its_return_annotation():
    """`list[float]`, also when written as text."""

    def zeros(states) -> "list[float]":
        return [0.0 for _ in states]

    def lonely(parser) -> list[float]:
        return [1.0, 2.0]

    states = [{"completion": "a"}, {"completion": "b"}]
    await Rubric([zeros, lonely]).score_group(states)
    assert [state["reward"] for state in states] == [1.0, 2.0]


async def test_group_functions_may_name_columns_and_objects_and_take_kwargs():
    """A column arrives as a list, an object as it is."""
    seen = {}

    async def ranks(completions, source, parser, limit=3, **kwargs) -> list[float]:
        seen.update(locals())
        return [1.0 for _ in completions]

    states = [{"completion": "a", "source": 1}, {"completion": "b", "source": 2}]
    rubric = Rubric([ranks])
    await rubric.score_group(states)
    assert seen["source"] == [1, 2]
    assert seen["parser"] is rubric.parser
    assert seen["limit"] == 3
    assert seen["kwargs"]["tasks"] == ["default", "default"]


@pytest.mark.parametrize("arguments", [1, 2])
async def test_a_field_that_is_missing_is_told_from_a_key_that_a_check_misses(arguments):
    """A rollout without the field gets the default; a check that looks up a wrong key is asked once, and has failed."""
    asked = []

    def by_one(level=0.0):
        asked.append(level)
        return {1.0: 1.0, 0.0: 0.5}[level]

    def by_two(completion, level=0.0):
        return by_one(level)

    states = [
        {"completion": "a", "level": 1.0},
        {"completion": "b"},
        {"completion": "c", "level": 2.0},
    ]
    reports = await Rubric([by_two if arguments == 2 else by_one]).score_group(states)
    assert [report.raw_score for report in reports] == [1.0, 0.5, None]
    assert list(reports[2].errors.values()) == ["KeyError: 2.0"]
    assert asked == [1.0, 0.0, 2.0]
