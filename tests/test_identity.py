"""What identifies judges, settings, functions and rubrics: whatever can change an answer."""

import asyncio
import importlib
import operator
import re
import subprocess
import sys
import textwrap
import threading
from collections import defaultdict, deque
from functools import cache, lru_cache, partial, partialmethod
from types import MethodType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from assay import Parser, PerCriterionGrader, Rubric, RubricGroup, XMLParser, model_of
from assay.identity import (
    UNKNOWN,
    has_lasting_name,
    identify,
    identify_judge,
    identify_or_unknown,
    is_same_version,
)
from assay.runs import Run, RunRefused, rescore, score_rows
from assay.testing import ModelServer

LIMIT = 5


def within_limit(completion):
    return len(completion) <= LIMIT


def make_check(limit):
    def check(completion):
        return len(completion) <= limit

    return check


class Judge:
    def __init__(self, verdict):
        self.verdict = verdict

    def __call__(self, system_prompt, user_prompt):
        return self.verdict

    def judge(self, system_prompt, user_prompt):
        return self.verdict


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


def are_same(first, second):
    """Equal, and of the same types throughout: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return repr(first) == repr(second)


@settings(deadline=None)
@given(values, values)
def test_the_identity_differs_whenever_a_value_differs(first, second):
    """For values in closures, attributes, defaults and partials alike."""
    for hold in (make_check, Judge, lambda value: partial(make_check, value)):
        same = identify(hold(first)) == identify(hold(second))
        assert same == are_same(first, second)


def test_code_constants_globals_and_helpers_are_part_of_a_function(monkeypatch):
    """Each change of what decides the answer gives another identity."""
    before = identify(within_limit)
    assert before == identify(within_limit)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 6)
    assert identify(within_limit) != before
    assert identify(lambda c: len(c) <= 100) != identify(lambda c: len(c) <= 5)
    assert identify(lambda c: len(c) < 5) != identify(lambda c: len(c) > 5)
    assert identify(lambda c, n=1: n) != identify(lambda c, n=2: n)


class Text(str):
    pass


class Number(int):
    pass


def add_attribute(thing, value):
    thing.limit = value
    return thing


def make_class(limit, metaclass=type):
    """A class whose objects compare by a number that only its methods know."""

    class Check(metaclass=metaclass):
        def compare(self, completion, limit):
            return len(completion) <= limit

        __call__ = partialmethod(compare, limit=limit)

    return Check


def make_settings(default):
    class Settings(BaseModel):
        limit: int = default

    return Settings


class Named:
    """An object that says it is pickled by its name."""

    def __init__(self, limit):
        self.limit = limit

    def __reduce__(self):
        return "Named"


class Slotted:
    __slots__ = ("limit",)

    def __init__(self, limit):
        self.limit = limit


JUDGE = Judge("MET")

# For each kind of object, a function that makes two of them that differ only in a number.
OBJECTS = {
    "a method that is bound by hand": lambda n: MethodType(lambda self, c, n=n: n, JUDGE),
    "a namespace with an id": lambda n: SimpleNamespace(id=1, base_url="http://x", limit=n),
    "an attribute of a text": lambda n: add_attribute(Text("x"), n),
    "an attribute of a number": lambda n: add_attribute(Number(1), n),
    "an attribute of a partial": lambda n: add_attribute(partial(len), n),
    "an attribute of a function": lambda n: add_attribute(make_check(1), n),
    "a partial method": lambda n: make_class(n)(),
    "a metaclass": lambda n: make_class(1, type("Meta", (type,), {"limit": n})),
    "a default of a pydantic model": make_settings,
    "an object that is pickled by name": Named,
    "an object with slots": Slotted,
    "a value in a deque": lambda n: deque([n]),
    "the factory of a defaultdict": lambda n: defaultdict(lambda: n),
    "a pattern": lambda n: re.compile("x" * n),
    "an iterator": lambda n: iter([n]),
    "a generator": lambda n: (value for value in [n]),
    "a sorted key": lambda n: operator.itemgetter(n),
    "a cached function": lambda n: lru_cache(make_check(n)),
    "a lambda in a list": lambda n: [lambda completion: completion[n]],
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_that_differ_in_a_number_are_never_the_same(kind):
    make = OBJECTS[kind]
    assert not is_same_version(identify_or_unknown(make(1)), identify_or_unknown(make(2)))


# Modules of users that differ only in the number in place of `<n>`; a check is called `check`. The
# module `settings` has `LIMIT = <n>`, and what else is needed to reach it.
MODULES = {
    "an import in a function": "def check(c):\n import settings\n return settings.LIMIT",
    "a from-import in a function": "def check(c):\n from settings import LIMIT\n return LIMIT",
    "an import of what imports it": "def check(c):\n from outer import read\n return read()",
    "a module in a dict": "import settings\nM = {1: settings}\ndef check(c): return M[1].LIMIT",
    "a module in a variable": "import settings\ndef check(c):\n m = settings\n return m.LIMIT",
    "a module that is passed on": "import settings\ndef check(c): return vars(settings)['LIMIT']",
    "an attribute by name": "import settings\ndef check(c): return getattr(settings, 'LIMIT')",
    "an attribute that a module computes": "import computed\ndef check(c): return computed.LIMIT",
    "a variable by name": "LIMIT = <n>\ndef check(c): return globals()['LIMIT']",
    "a variable in evaluated code": "LIMIT = <n>\ndef check(c): return eval('LIMIT')",
    "a wrapper of a library's function": (
        "import functools, json\n@functools.wraps(json.dumps)\ndef check(c): return <n>"
    ),
    "a wrapper of assay's function": (
        "import functools, assay\n@functools.wraps(assay.model_of)\ndef check(c): return <n>"
    ),
    "a class that a library makes": (
        "import dataclasses\nX = dataclasses.make_dataclass('X', [('limit', int, <n>)])\n"
        "def check(c): return X().limit"
    ),
    "a subclass of partial": (
        "import functools\nclass P(functools.partial):\n def __call__(self, c): return <n>\n"
        "check = P(len)"
    ),
    "an attribute of a date": (
        "import datetime\nclass D(datetime.date): pass\nd = D(2020, 1, 1)\nd.limit = <n>\n"
        "def check(c): return d.limit"
    ),
    "an annotation": (
        "import typing\ndef check(c: typing.Literal[<n>]): return typing.get_type_hints(check)"
    ),
    "a docstring": "class X:\n '<n>'\ndef check(c): return X.__doc__",
    "a union of types": "T = [int | str, int | bytes][<n> - 1]\ndef check(c): return T",
}


def load_check(folder, monkeypatch, source, number):
    folder.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(folder)
    texts = {
        "settings": "LIMIT = <n>",
        "outer": "from settings import LIMIT\ndef read(): return LIMIT",
        "computed": "def __getattr__(name): return <n>",
        "own_checks": source,
    }
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text.replace("<n>", str(number)))
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module("own_checks").check


@pytest.mark.parametrize("kind", MODULES)
def test_checks_of_modules_that_differ_in_a_number_are_never_the_same(kind, tmp_path, monkeypatch):
    """However they reach the number. A module that is read anew has the same identity."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    identities = []
    for folder, number in (("a", 1), ("b", 1), ("c", 2)):
        check = load_check(tmp_path / folder, monkeypatch, MODULES[kind], number)
        identities.append(identify(check))
    assert identities[0] == identities[1] != identities[2]


def test_a_comment_in_a_module_that_a_function_imports_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = "def check(c):\n import settings\n return settings.LIMIT"
    before = identify(load_check(tmp_path, monkeypatch, source, 1))
    (tmp_path / "settings.py").write_text("# The limit.\n\nLIMIT = 1  # letters\n")
    assert identify(sys.modules["own_checks"].check) == before


def test_a_module_that_is_imported_in_a_function_is_not_imported_to_identify_it(
    tmp_path, monkeypatch
):
    (tmp_path / "slow_to_import.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)

    def check(completion):
        import slow_to_import

        return slow_to_import.measure(completion)

    assert len(identify(check)) == 64


@pytest.mark.parametrize(
    "sent",
    [{"headers": {"x-adapter": "a"}}, {"params": {"adapter": "a"}}, {"base_url": "http://a"}],
    ids=lambda sent: next(iter(sent)),
)
def test_http_clients_are_known_by_what_they_send(sent):
    httpx = pytest.importorskip("httpx")
    common = {"base_url": "http://127.0.0.1:9"}
    first, again, other = (httpx.Client(**{**common, **each}) for each in (sent, sent, {}))
    assert identify(first) == identify(again) != identify(other)


def test_what_a_module_of_the_user_holds_is_part_of_a_function(tmp_path, monkeypatch):
    """`settings.LIMIT` in a check is read from the module `settings`."""
    (tmp_path / "own_settings.py").write_text("LIMIT = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    import own_settings

    def check(completion):
        return len(completion) <= own_settings.LIMIT

    before = identify(check)
    own_settings.LIMIT = 6
    assert identify(check) != before


def test_the_identity_is_the_same_in_another_process(tmp_path):
    """Otherwise no run could be resumed."""
    (tmp_path / "own_checks.py").write_text(
        textwrap.dedent(
            """
            import re
            from assay import Criterion, Rubric
            WORDS = {"kind", "brief"}
            PATTERN = re.compile("[a-z]+")

            class Check:
                def __init__(self, words):
                    self.words = words

                def __call__(self, completion):
                    return len(self.words & set(PATTERN.findall(completion)))

            def is_short(completion, parser):
                return len(parser.parse_answer(completion) or "") < 5 or completion in (1, (2, 3))

            rubric = Rubric([Criterion(check=Check(WORDS), name="words"), is_short])
            """
        )
    )
    program = "import own_checks; print(own_checks.rubric.content_hash)"
    hashes = set()
    for _ in range(3):  # the first run compiles, the others read what was compiled
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(result.stdout.strip())
    [content_hash] = hashes
    assert len(content_hash) == 64


class TestRubrics:
    def test_rubrics_with_different_code_have_different_versions(self):
        first, second = Rubric([make_check(100)]), Rubric([make_check(5)])
        assert first.content_hash == Rubric([make_check(100)]).content_hash != second.content_hash

    def test_a_subclass_that_changes_rewards_is_another_rubric(self):
        class TenTimes(Rubric):
            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["reward"] *= 10

        check = make_check(5)
        assert TenTimes([check]).content_hash != Rubric([check]).content_hash

    def test_what_a_subclass_keeps_is_part_of_the_version(self):
        class Scaled(Rubric):
            def __init__(self, checks, factor):
                super().__init__(checks)
                self.factor = factor

            async def score_rollout(self, state):
                await super().score_rollout(state)
                state["reward"] *= self.factor

        check = make_check(5)
        versions = [Scaled([check], factor).content_hash for factor in (1, 1, 10)]
        assert versions[0] == versions[1] != versions[2]
        assert versions[0] != UNKNOWN

    def test_a_method_that_is_set_on_a_rubric_is_part_of_the_version(self):
        rubrics = [Rubric([make_check(5)]) for _ in range(2)]
        rubrics[0].score_rollout = lambda state: state
        assert rubrics[0].content_hash != rubrics[1].content_hash

    def test_what_every_rubric_keeps_does_not_change_the_version(self):
        """A subclass of users has the same attributes as any other, also after it was used."""

        class Own(Rubric):
            pass

        class OwnGroup(RubricGroup):
            limit = 5

        for rubric in (Own([make_check(5)]), OwnGroup([Rubric([make_check(5)])])):
            before = rubric.content_hash
            rubric.grade_sync("x")
            rubric.inherit_parser(XMLParser(["answer"]))
            assert rubric.content_hash == before != UNKNOWN

    def test_a_group_of_a_class_that_a_function_makes_is_known_by_what_it_holds(self):
        def make(limit):
            return type("Group", (RubricGroup,), {"limit": limit})([Rubric([make_check(5)])])

        assert make(1).content_hash == make(1).content_hash != make(2).content_hash

    def test_an_object_that_a_check_takes_is_part_of_the_version(self):
        def check(completion, limit):
            return len(completion) <= limit

        versions = []
        for limit in (5, 100):
            rubric = Rubric([check])
            rubric.add_class_object("limit", limit)
            versions.append(rubric.content_hash)
            assert rubric.grade_sync("short").version == rubric.content_hash
        assert versions[0] != versions[1]

    def test_what_cannot_be_identified_is_never_the_same(self):
        numbers = (number for number in range(9))

        def check(completion):
            return next(numbers) > 5

        rubric = Rubric([check])
        assert rubric.content_hash == rubric.grade_sync("x").version == UNKNOWN
        assert not is_same_version(rubric.content_hash, rubric.content_hash)

    def test_a_check_that_changes_by_an_addition_changes_the_version_of_reports(self):
        rubric = Rubric([make_check(5)])
        before = rubric.grade_sync("x").version
        rubric.add_reward_func(make_check(6))
        after = rubric.grade_sync("x").version
        assert before != after == rubric.content_hash

    async def test_a_run_is_not_resumed_with_other_code(self, tmp_path):
        rows = [{"completion": "x" * 50}]
        await score_rows(Rubric([make_check(100)]), rows, folder=tmp_path)
        with pytest.raises(RunRefused, match="'check'"):
            await score_rows(Rubric([make_check(5)]), rows, folder=tmp_path, resume=True)
        await score_rows(Rubric([make_check(100)]), rows, folder=tmp_path, resume=True)

    async def test_a_check_with_a_cache_in_a_dict_is_told_where_to_keep_it(self, tmp_path):
        """What is in the dict may change its answers. `functools.cache` is known not to."""
        lengths = {}

        def with_dict(completion):
            return lengths.setdefault(completion, len(completion))

        @cache
        def count_letters(completion):
            return len(completion)

        def with_cache(completion):
            return count_letters(completion)

        rows = [{"completion": "x"}]
        await score_rows(Rubric([with_dict]), rows, folder=tmp_path / "a")
        with pytest.raises(
            RunRefused, match=r"code of 'with_dict' or a value .* `functools\.cache`"
        ):
            await score_rows(Rubric([with_dict]), rows, folder=tmp_path / "a", resume=True)
        await score_rows(Rubric([with_cache]), rows, folder=tmp_path / "b")
        await score_rows(Rubric([with_cache]), rows, folder=tmp_path / "b", resume=True)

    async def test_a_run_is_not_resumed_with_code_that_cannot_be_identified(self, tmp_path):
        numbers = (number for number in range(9))

        def check(completion):
            return next(numbers) > 5

        rows = [{"completion": "x"}]
        await score_rows(Rubric([check]), rows, folder=tmp_path)
        with pytest.raises(RunRefused, match="the code of 'check' cannot be identified"):
            await score_rows(Rubric([check]), rows, folder=tmp_path, resume=True)

    def test_a_lock_does_not_hide_what_else_a_check_holds(self):
        def make_locked_check(limit):
            lock = threading.Lock()

            def check(completion):
                with lock:
                    return len(completion) <= limit

            return check

        first, again, other = [Rubric([make_locked_check(n)]).content_hash for n in (5, 5, 6)]
        assert first == again != other
        assert first != UNKNOWN

    def test_the_functions_of_a_parser_are_part_of_the_version(self):
        def check(completion, answer, parser):
            return parser.parse_answer(completion) == answer

        class Start(Parser):
            def __init__(self, length):
                super().__init__()
                self._length = length

            def parse(self, text):
                return super().parse(text)[: self._length]

        for first, second in [
            (Parser(lambda text: text), Parser(lambda text: text.strip())),
            (
                XMLParser(["answer"], extract_fn=str.upper),
                XMLParser(["answer"], extract_fn=str.lower),
            ),
            (Start(1), Start(2)),
        ]:
            versions = [Rubric([check], parser=parser).content_hash for parser in (first, second)]
            assert versions[0] != versions[1]

    def test_a_rubric_that_a_check_asks_is_part_of_the_version(self):
        def make_rubric(limit):
            inner = Rubric([make_check(limit)])

            def check(completion):
                return inner.grade_sync(completion).score

            return Rubric([check])

        assert make_rubric(5).content_hash == make_rubric(5).content_hash
        assert make_rubric(5).content_hash != make_rubric(6).content_hash

    def test_a_large_object_is_not_read(self):
        """Neither a list of a million numbers nor a large array takes longer than it may."""
        assert identify_or_unknown(list(range(10**6))) == identify_or_unknown(list(range(10**6)))
        assert identify_or_unknown([[n] for n in range(10**6)]) == UNKNOWN
        assert identify_or_unknown(b"x" * 10**8) == UNKNOWN


def always_met(system_prompt, user_prompt):
    return '{"explanation": "", "criterion_status": "MET"}'


MET, UNMET = (f'{{"explanation": "", "criterion_status": "{v}"}}' for v in ("MET", "UNMET"))


def judge_pairs():
    """Two judges with one path each time, of which the first says MET and the second UNMET."""

    def answering(verdict):
        def judge(system_prompt, user_prompt):
            return verdict

        return judge

    def echo(verdict, system_prompt, user_prompt):
        return verdict

    return {
        "methods": (Judge(MET).judge, Judge(UNMET).judge),
        "callable objects": (Judge(MET), Judge(UNMET)),
        "closures": (answering(MET), answering(UNMET)),
        "partials": (partial(echo, MET), partial(echo, UNMET)),
        "lambdas": (lambda s, u: MET, lambda s, u: UNMET),
        "methods bound by hand": (
            MethodType(lambda self, s, u: MET, JUDGE),
            MethodType(lambda self, s, u: UNMET, JUDGE),
        ),
    }


@pytest.mark.parametrize("kind", judge_pairs())
class TestFunctionsAsJudges:
    RUBRIC = Rubric([{"requirement": "Is kind"}])

    def test_they_share_no_cached_verdict(self, kind, tmp_path):
        verdicts = []
        for function in judge_pairs()[kind]:
            grader = PerCriterionGrader(model=model_of(function, cache=tmp_path / "cache.db"))
            verdicts.append(self.RUBRIC.grade_sync("x", grader).score)
        assert verdicts == [1.0, 0.0]

    async def test_rescoring_asks_the_other_one(self, kind, tmp_path):
        first, second = judge_pairs()[kind]
        await score_rows(
            self.RUBRIC,
            [{"completion": "x"}],
            folder=tmp_path / "a",
            judge=PerCriterionGrader(model=first),
        )
        summary = await rescore(
            Run.open(tmp_path / "a"),
            self.RUBRIC,
            tmp_path / "b",
            judge=PerCriterionGrader(model=second),
        )
        assert summary.score.mean == 0.0

    async def test_a_run_is_not_resumed_with_the_other_one(self, kind, tmp_path):
        first, second = map(PerCriterionGrader, judge_pairs()[kind])
        rows = [{"completion": "x"}]
        await score_rows(self.RUBRIC, rows, folder=tmp_path, judge=first)
        with pytest.raises(RunRefused, match="judge was"):
            await score_rows(self.RUBRIC, rows, folder=tmp_path, judge=second, resume=True)
        # The same object is the same judge.
        await score_rows(self.RUBRIC, rows, folder=tmp_path, judge=first, resume=True)


def test_a_function_without_a_name_is_cached_if_it_is_given_an_id(tmp_path):
    """The second one is not asked, because the ids are the same."""
    asked = []

    def make(verdict):
        def judge(system_prompt, user_prompt):
            asked.append(verdict)
            return verdict

        return judge

    rubric = Rubric([{"requirement": "Is kind"}])
    for verdict in (MET, UNMET):
        model = model_of(make(verdict), id="judge 1", cache=tmp_path / "cache.db")
        assert rubric.grade_sync("x", PerCriterionGrader(model=model)).score == 1.0
    assert asked == [MET]


def test_a_function_with_a_name_is_cached_until_its_code_changes(tmp_path):
    (tmp_path / "own_judge.py").write_text("def judge(system_prompt, user_prompt): return 'MET'\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "own_judge.py").write_text(
        "def judge(system_prompt, user_prompt): return 'UNMET'\n"
    )
    program = "import own_judge; from assay.identity import identify_judge; print(identify_judge(own_judge.judge))"
    ids = [
        subprocess.run(
            [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        for folder in (tmp_path, tmp_path, tmp_path / "other")
    ]
    assert ids[0] == ids[1] != ids[2]
    assert all(line.startswith("own_judge:judge@") for line in ids)


@pytest.mark.parametrize("held", ["[[n] for n in range(30_000)]", "(n for n in range(9))"])
def test_a_function_that_cannot_be_identified_shares_no_verdict(held, tmp_path, monkeypatch):
    """Its name says nothing about what it refers to: too many objects, or a generator."""
    (tmp_path / "judge_with_data.py").write_text(
        f"DATA = {held}\ndef judge(system_prompt, user_prompt): return DATA and 'MET'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = []
    for _ in range(2):
        sys.modules.pop("judge_with_data", None)
        judge = importlib.import_module("judge_with_data").judge
        assert not has_lasting_name(judge)
        names.append(identify_judge(judge))
    assert names[0] != names[1]


def test_an_id_is_only_for_functions():
    with pytest.raises(Exception, match="id='x' is for a function"):
        model_of("http://127.0.0.1:9/v1#name", id="x")


@pytest.mark.parametrize(
    "pair",
    [
        ({"adapter_key": "medical"}, {"adapter_key": "legal"}),
        ({"lora_token": "a"}, {"lora_token": "b"}),
        ({"extra_headers": {"x-style-key": "a"}}, {"extra_headers": {"x-style-key": "b"}}),
        ({"style": "sk-proj-0123456789abcdef"}, {"style": "sk-proj-0123456789abcdee"}),
    ],
)
def test_settings_that_look_like_secrets_are_part_of_the_key_but_not_written(pair):
    models = [model_of("http://127.0.0.1:9/v1#name", **each) for each in pair]
    again = model_of("http://127.0.0.1:9/v1#name", **pair[0])
    assert models[0].id == again.id != models[1].id
    for model in models:
        for secret in ("medical", "legal", "0123456789"):
            assert secret not in model.id


def test_two_adapters_share_no_verdict(tmp_path):
    """Only the third model is one that was asked before."""
    rubric = Rubric([{"requirement": "Is kind"}])
    with ModelServer(lambda system, user: "MET") as server:
        for adapter in ("medical", "legal", "medical"):
            model = model_of(server.model, adapter_key=adapter, cache=tmp_path / "cache.db")
            asyncio.run(rubric.grade("x", PerCriterionGrader(model=model)))
        assert server.calls == 2


def make_openai_client(url, **options):
    openai = pytest.importorskip("openai")
    return openai.AsyncOpenAI(base_url=url, api_key="k", **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda server, adapter: model_of(server.model, headers={"X-Adapter": adapter}),
        lambda server, adapter: model_of(
            make_openai_client(server.url, default_headers={"x-adapter-key": adapter}), "test"
        ),
        lambda server, adapter: model_of(
            make_openai_client(server.url, default_query={"adapter": adapter}), "test"
        ),
    ],
    ids=["headers", "headers of a client", "query of a client"],
)
def test_headers_and_queries_are_part_of_the_key(make, tmp_path):
    """Only the third model is one that was asked before."""
    rubric = Rubric([{"requirement": "Is kind"}])
    with ModelServer(lambda system, user: "MET") as server:
        for adapter in ("medical", "legal", "medical"):
            model = model_of(make(server, adapter), cache=tmp_path / "cache.db")
            asyncio.run(rubric.grade("x", PerCriterionGrader(model=model)))
        assert server.calls == 2


class RoutingClient:
    """What a user may put around the client of an SDK."""

    base_url = "http://127.0.0.1:9/v1"

    def __init__(self, adapter):
        self.adapter = adapter
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    async def create(self, **request):
        return {**request, "adapter": self.adapter}


def make_through(make_http_client):
    """Make a client of OpenAI that sends through a client of httpx."""
    openai = pytest.importorskip("openai")
    [base] = [
        each for each in openai.DefaultAsyncHttpxClient.__mro__ if each.__name__ == "AsyncClient"
    ]
    httpx = sys.modules[base.__module__.partition(".")[0]]
    return make_openai_client("http://127.0.0.1:9/v1", http_client=make_http_client(httpx))


CLIENTS = {
    "headers": lambda value: make_through(lambda httpx: httpx.AsyncClient(headers={"x-a": value})),
    "query": lambda value: make_through(lambda httpx: httpx.AsyncClient(params={"adapter": value})),
    "hooks": lambda value: make_through(
        lambda httpx: httpx.AsyncClient(event_hooks={"request": [lambda request: value]})
    ),
    "transport": lambda value: make_through(
        lambda httpx: httpx.AsyncClient(transport=httpx.MockTransport(lambda request: value))
    ),
    "a client of the user": RoutingClient,
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_what_users_put_around_a_client_is_part_of_the_key(kind):
    first, again, other = (
        model_of(CLIENTS[kind](value), "test").id for value in ("medical", "medical", "legal")
    )
    assert first == again != other


def test_what_an_sdk_sends_on_its_own_and_who_pays_are_no_part_of_the_key():
    url = "http://127.0.0.1:9/v1"
    first = make_openai_client(url, organization="a", default_headers={"User-Agent": "a"})
    second = make_openai_client(url, organization="b", default_headers={"User-Agent": "b"})
    assert model_of(first, "test").id == model_of(second, "test").id == f"{url}#test"


def test_settings_may_have_numbers_and_texts_as_names():
    models = [
        model_of("http://127.0.0.1:9/v1#name", logit_bias={1: bias, "a": 1}) for bias in (1, 2)
    ]
    assert models[0].id != models[1].id


def test_a_module_level_function_keeps_its_path_in_its_id():
    assert identify_judge(always_met).startswith(f"{__name__}:always_met@")
