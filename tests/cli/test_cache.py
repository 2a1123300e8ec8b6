"""`assay cache`: what is kept, for people to look at, to clean up and to carry elsewhere."""

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from assay.cache import CachedVerdict, VerdictKey, open_store
from assay.cli import main

OLD = time.time() - 100 * 86_400


@pytest.fixture
def cache(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command; its exit code, output and complaints."""

    def run(*arguments: str) -> SimpleNamespace:
        code = main(["cache", *arguments])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


@pytest.fixture
def kept(place: Any) -> Any:
    """A cache with two verdicts of one judge, one of them old, and one of another."""
    store = open_store(place)
    for number, (judge, created) in enumerate([("a/x", OLD), ("a/x", None), ("b/y", None)]):
        key = VerdictKey(f"q{number}", f"t{number}", judge, "1 per_criterion/3")
        when = {} if created is None else {"created": created}
        store.put_many([(key, CachedVerdict(f"MET\n{number}", cost=0.25, **when))])
    store.close()
    return place


@pytest.mark.usefixtures("kept")
class TestInspect:
    def test_it_says_how_much_is_there(self, cache: Any, place: Any) -> None:
        """Verdicts by judge, most first, and what they cost."""
        done = cache("inspect")
        first, _, *judges = done.out.splitlines()
        assert first.startswith(f"{place / 'verdicts.sqlite'}: 3 verdicts, ")
        assert first.endswith("which cost $0.7500")
        assert [line.split() for line in judges] == [["2", "a/x"], ["1", "b/y"]]

    def test_as_json(self, cache: Any) -> None:
        """For a program."""
        stats = json.loads(cache("inspect", "--json").out)
        assert (stats["verdicts"], stats["judges"], stats["cost"]) == (
            3,
            {"a/x": 2, "b/y": 1},
            0.75,
        )

    def test_the_judge_of_a_project_selects_nothing(
        self, cache: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The setting `judge` names the model to ask, and not the verdicts that a command is about."""
        (tmp_path / "assay.toml").write_text('judge = "b/y"\n')
        monkeypatch.chdir(tmp_path)
        assert "3 verdicts" in cache("inspect").out
        assert cache("prune", "--all").out.startswith("deleted 3 verdicts")

    def test_it_lists_what_is_selected(self, cache: Any) -> None:
        """One line each: when, who, about what, and what was said."""
        [line] = cache("inspect", "--judge", "b/*").out.splitlines()
        assert line.split()[2:] == ["b/y", "q2", "MET", "2"]
        assert len(cache("inspect", "--limit", "2").out.splitlines()) == 2
        [row] = [
            json.loads(x) for x in cache("inspect", "--question", "q1", "--json").out.splitlines()
        ]
        assert (row["judge"], row["verdict"], row["prompt"]) == (
            "a/x",
            "MET\n1",
            "1 per_criterion/3",
        )


class TestPrune:
    @pytest.mark.parametrize(
        ("arguments", "gone"),
        [
            (["--judge", "a/x"], 2),
            (["--judge", "a/*", "--older-than", "90"], 1),
            (["--older-than", "200"], 0),
            (["--question", "q2"], 1),
            (["--all"], 3),
        ],
    )
    def test_it_forgets_what_is_selected(
        self, cache: Any, kept: Any, arguments: list[str], gone: int
    ) -> None:
        """And says how many those were."""
        assert cache("prune", *arguments).out.startswith(f"deleted {gone} verdict")
        assert json.loads(cache("inspect", "--json").out)["verdicts"] == 3 - gone

    @pytest.mark.parametrize("arguments", [[], ["--all", "--judge", "a/x"]])
    def test_it_wants_to_be_told_what(self, cache: Any, kept: Any, arguments: list[str]) -> None:
        """Everything has to be asked for, and alone."""
        done = cache("prune", *arguments)
        assert done.code == 2
        assert "--all" in done.err


class TestMoving:
    def test_what_is_exported_can_be_taken_in_elsewhere(
        self, cache: Any, kept: Any, tmp_path: Any
    ) -> None:
        """By a file or by the screen; what is there already stays."""
        file, other = str(tmp_path / "out.jsonl"), str(tmp_path / "other.sqlite")
        done = cache("export", "--judge", "a/*", "--output", file)
        assert (done.out, done.err) == ("", f"wrote 2 verdicts to {file}\n")
        assert len(cache("export").out.splitlines()) == 3
        for _ in range(2):
            assert (
                cache("import", file, "--cache", other).out == f"imported 2 verdicts into {other}\n"
            )
        assert json.loads(cache("inspect", "--json", "--cache", other).out)["verdicts"] == 2

    def test_what_is_no_export_is_refused(self, cache: Any, place: Any, files: Any) -> None:
        """With the line."""
        done = cache("import", files("bad.jsonl", '{"verdict": "MET"}\n'))
        assert done.code == 2
        assert "line 1" in done.err


class TestNothingThere:
    @pytest.mark.parametrize("action", [["inspect"], ["prune", "--all"], ["export"]])
    def test_looking_for_a_cache_does_not_make_one(
        self, cache: Any, place: Any, action: list[str]
    ) -> None:
        """It is said, with the place."""
        done = cache(*action)
        assert done.code == 2
        assert f"there is no cache at {place / 'verdicts.sqlite'}" in done.err
        assert not place.exists()

    def test_without_an_action_it_says_what_there_is(self, cache: Any) -> None:
        """As bad usage."""
        done = cache()
        assert done.code == 2
        assert "Commands:\n  inspect" in done.err

    @pytest.mark.parametrize(
        "arguments", [["inspect", "--limit", "-1"], ["prune", "--older-than", "soon"]]
    )
    def test_numbers_have_to_be_numbers(self, cache: Any, arguments: list[str]) -> None:
        """Of verdicts, and of days."""
        done = cache(*arguments)
        assert done.code == 2
        assert "is not a " in done.err
