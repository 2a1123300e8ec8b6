"""`assay cache`: show, prune, export and import saved verdicts."""

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
    """Run the command; return its exit code, output and error output."""

    def run(*arguments: str) -> SimpleNamespace:
        code = main(["cache", *arguments])
        said = capsys.readouterr()
        return SimpleNamespace(code=code, out=said.out, err=said.err)

    return run


@pytest.fixture
def filled_cache(cache_folder: Any) -> Any:
    """A cache with two verdicts of one judge, one of them old, and one verdict of another judge."""
    store = open_store(cache_folder)
    for number, (judge, created) in enumerate([("a/x", OLD), ("a/x", None), ("b/y", None)]):
        key = VerdictKey(f"q{number}", f"t{number}", judge, "1 per_criterion/3")
        when = {} if created is None else {"created": created}
        store.put_many([(key, CachedVerdict(f"MET\n{number}", cost=0.25, **when))])
    store.close()
    return cache_folder


@pytest.mark.usefixtures("filled_cache")
class TestInspect:
    def test_the_summary_counts_verdicts_and_costs_by_judge(
        self, cache: Any, cache_folder: Any
    ) -> None:
        """The judge with the most verdicts comes first."""
        done = cache("inspect")
        first, _, *judges = done.out.splitlines()
        assert first.startswith(f"{cache_folder / 'verdicts.sqlite'}: 3 verdicts, ")
        assert first.endswith("which cost $0.7500")
        assert [line.split() for line in judges] == [["2", "a/x"], ["1", "b/y"]]

    def test_the_summary_can_be_printed_as_json(self, cache: Any) -> None:
        stats = json.loads(cache("inspect", "--json").out)
        assert (stats["verdicts"], stats["judges"], stats["cost"]) == (
            3,
            {"a/x": 2, "b/y": 1},
            0.75,
        )

    def test_the_judge_setting_of_a_project_does_not_filter_verdicts(
        self, cache: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It names the model to call, not the verdicts that a command is about."""
        (tmp_path / "assay.toml").write_text('judge = "b/y"\n')
        monkeypatch.chdir(tmp_path)
        assert "3 verdicts" in cache("inspect").out
        assert cache("prune", "--all").out.startswith("deleted 3 verdicts")

    def test_selected_verdicts_are_listed(self, cache: Any) -> None:
        """One line for each, with time, judge, requirement and verdict."""
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
    def test_prune_deletes_the_selected_verdicts(
        self, cache: Any, filled_cache: Any, arguments: list[str], gone: int
    ) -> None:
        """And prints how many."""
        assert cache("prune", *arguments).out.startswith(f"deleted {gone} verdict")
        assert json.loads(cache("inspect", "--json").out)["verdicts"] == 3 - gone

    @pytest.mark.parametrize("arguments", [[], ["--all", "--judge", "a/x"]])
    def test_prune_needs_a_selection(
        self, cache: Any, filled_cache: Any, arguments: list[str]
    ) -> None:
        """Deleting everything needs an option of its own, which cannot be combined."""
        done = cache("prune", *arguments)
        assert done.code == 2
        assert "--all" in done.err


class TestExportAndImport:
    def test_exported_verdicts_can_be_imported_into_another_cache(
        self, cache: Any, filled_cache: Any, tmp_path: Any
    ) -> None:
        """From a file or a pipe; verdicts that are there already are kept."""
        file, other = str(tmp_path / "out.jsonl"), str(tmp_path / "other.sqlite")
        done = cache("export", "--judge", "a/*", "--output", file)
        assert (done.out, done.err) == ("", f"wrote 2 verdicts to {file}\n")
        assert len(cache("export").out.splitlines()) == 3
        for _ in range(2):
            assert (
                cache("import", file, "--cache", other).out == f"imported 2 verdicts into {other}\n"
            )
        assert json.loads(cache("inspect", "--json", "--cache", other).out)["verdicts"] == 2

    def test_importing_another_file_is_refused(
        self, cache: Any, cache_folder: Any, write_file: Any
    ) -> None:
        """The error names the line."""
        done = cache("import", write_file("bad.jsonl", '{"verdict": "MET"}\n'))
        assert done.code == 2
        assert "line 1" in done.err


class TestMissingCache:
    @pytest.mark.parametrize("action", [["inspect"], ["prune", "--all"], ["export"]])
    def test_showing_a_missing_cache_does_not_create_it(
        self, cache: Any, cache_folder: Any, action: list[str]
    ) -> None:
        """The error names the path."""
        done = cache(*action)
        assert done.code == 2
        assert f"there is no cache at {cache_folder / 'verdicts.sqlite'}" in done.err
        assert not cache_folder.exists()

    def test_without_a_subcommand_the_subcommands_are_listed(self, cache: Any) -> None:
        """As a usage error."""
        done = cache()
        assert done.code == 2
        assert "Commands:\n  inspect" in done.err

    @pytest.mark.parametrize(
        "arguments", [["inspect", "--limit", "-1"], ["prune", "--older-than", "soon"]]
    )
    def test_invalid_numbers_are_refused(self, cache: Any, arguments: list[str]) -> None:
        """Of verdicts, and of days."""
        done = cache(*arguments)
        assert done.code == 2
        assert "is not a " in done.err
