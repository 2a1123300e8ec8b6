"""A process is killed repeatedly, and its run ends as if it had never been interrupted."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from assay.runs import Run
from assay.runs.run_writer import JOURNAL_MODE_VARIABLE
from assay.testing import ModelServer

PROGRAM = Path(__file__).parent / "killed.py"
KILLS = 20


def run_program(folder, rows, kills, seed, *model):
    command = [sys.executable, str(PROGRAM), str(folder), str(rows), str(kills), str(seed), *model]
    completed = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert completed.returncode == 0, completed.stderr
    return int(completed.stdout)


def read_rows(folder):
    return {row.key: (row.fields, row.report, row.error) for row in Run.open(folder).rows()}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_twenty_kills_change_nothing(tmp_path, monkeypatch, mode):
    """The rows equal those of an uninterrupted run, and no saved row is scored again.

    The mode `delete` is for shared file systems, where SQLite cannot use a WAL.
    """
    monkeypatch.setenv(JOURNAL_MODE_VARIABLE, mode)
    seed = random.SystemRandom().randrange(10**9)
    assert run_program(tmp_path / "killed", 1500, KILLS, seed) == 1500, seed
    assert run_program(tmp_path / "whole", 1500, 0, seed) == 1500
    assert read_rows(tmp_path / "killed") == read_rows(tmp_path / "whole"), seed
    assert Run.open(tmp_path / "killed").summary() == Run.open(tmp_path / "whole").summary()
    saved_rows, calls, kill_count = set(), 0, 0
    for line in Path(f"{tmp_path / 'killed'}.calls").read_text().splitlines():
        entry = json.loads(line)
        if isinstance(entry, dict):
            assert len(entry["saved"]) == len(set(entry["saved"])), seed
            assert saved_rows <= set(entry["saved"]), seed
            saved_rows, kill_count = set(entry["saved"]), kill_count + 1
        else:
            assert entry not in saved_rows, seed
            calls += 1
    assert kill_count == KILLS
    assert calls > 1500


def is_even(system, user):
    return "MET" if int(user.split("number ")[1].split(".")[0]) % 2 == 0 else "UNMET"


@pytest.mark.slow
def test_a_kill_repeats_only_the_judge_calls_in_flight(tmp_path):
    """At most eight rows are judged at a time, so a kill costs at most eight calls."""
    seed = random.SystemRandom().randrange(10**9)
    with ModelServer(is_even, latency=0.005) as server:
        assert run_program(tmp_path / "killed", 300, KILLS, seed, server.model) == 300, seed
        call_count = len(server.requests)
        assert run_program(tmp_path / "whole", 300, 0, seed, server.model) == 300
    assert read_rows(tmp_path / "killed") == read_rows(tmp_path / "whole"), seed
    assert 300 <= call_count <= 300 + 8 * KILLS, seed
