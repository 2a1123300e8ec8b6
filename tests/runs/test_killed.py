"""A real process is killed outright again and again, and the run ends as if nothing had happened."""

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


def run(folder, rows, kills, seed, *model):
    command = [sys.executable, str(PROGRAM), str(folder), str(rows), str(kills), str(seed), *model]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def found(folder):
    return {row.key: (row.fields, row.report, row.error) for row in Run.open(folder).rows()}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_twenty_kills_change_nothing(tmp_path, monkeypatch, mode):
    """Row for row what an uninterrupted run gives, and no saved row is done again.

    Also on file systems that are shared, where SQLite cannot use a WAL.
    """
    monkeypatch.setenv(JOURNAL_MODE_VARIABLE, mode)
    seed = random.SystemRandom().randrange(10**9)
    assert run(tmp_path / "killed", 1500, KILLS, seed) == 1500, seed
    assert run(tmp_path / "whole", 1500, 0, seed) == 1500
    assert found(tmp_path / "killed") == found(tmp_path / "whole"), seed
    assert Run.open(tmp_path / "killed").summary() == Run.open(tmp_path / "whole").summary()
    done, twice, kills = set(), 0, 0
    for line in Path(f"{tmp_path / 'killed'}.calls").read_text().splitlines():
        noted = json.loads(line)
        if isinstance(noted, dict):
            assert len(noted["saved"]) == len(set(noted["saved"])), seed
            assert done <= set(noted["saved"]), seed
            done, kills = set(noted["saved"]), kills + 1
        else:
            assert noted not in done, seed
            twice += 1
    assert kills == KILLS
    assert twice > 1500


def is_even(system, user):
    return "MET" if int(user.split("number ")[1].split(".")[0]) % 2 == 0 else "UNMET"


@pytest.mark.slow
def test_a_judge_is_asked_again_only_about_what_was_in_flight(tmp_path):
    """Eight rows are under way at a time, so a kill costs at most eight calls."""
    seed = random.SystemRandom().randrange(10**9)
    with ModelServer(is_even, latency=0.005) as server:
        assert run(tmp_path / "killed", 300, KILLS, seed, server.model) == 300, seed
        asked = len(server.asked)
        assert run(tmp_path / "whole", 300, 0, seed, server.model) == 300
    assert found(tmp_path / "killed") == found(tmp_path / "whole"), seed
    assert 300 <= asked <= 300 + 8 * KILLS, seed
