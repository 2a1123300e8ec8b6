"""The answers that are checked: real ones of public data sets, with the labels they came with.

The data are no part of this repository. `find_data` says where to put them.
"""

import json
import os
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEED = 20240229
VARIABLE = "ASSAY_DATA"
DEFAULT = Path(__file__).parents[2] / "shared" / "data"

# Negative labels of the Qwen samples that are wrong when read by a person, as (problem, sample).
_QWEN_MISLABELLED = {*((3, sample) for sample in range(8)), (72, 7)}
_WORDS = re.compile(r"\\(?:text|mathrm|operatorname|mbox)|(?<![\\a-zA-Z])[a-zA-Z]{3,}")
_PLAIN = re.compile(r"[-\d.,e\s]*|-?\\frac\{-?\d+\}\{\d+\}")
# A second form of the same answer, an alignment, or a list in several dollars.
_UNCLEAR = ("$", ":", ";", "\n", "&", "bullet", "approx", "bar{", "\\quad", "\\ldots", "\\bigcup", "t(")


@dataclass(frozen=True)
class Pair:
    """A gold and an answer. `label` is None where the set's own label is not to be trusted."""

    gold: str
    answer: str
    label: bool | None = None


class DataError(Exception):
    """The data are not where they were looked for."""


def find_data(given: str | None) -> Path:
    """The folder with the data, by option, environment variable or default."""
    chosen = Path(given or os.environ.get(VARIABLE) or DEFAULT).resolve()
    if not (chosen / "math").is_dir():
        raise DataError(
            f"there is no folder 'math' in {chosen}: give the folder that holds "
            "math/grade-school-math, math/Qwen2.5-Math and math/MathCoder with --data or in "
            f"{VARIABLE} (benchmarks/README.md names the sources)"
        )
    return chosen / "math"


def gsm8k(folder: Path) -> list[Pair]:
    """Final numbers of four models' solutions; right when they equal the gold number."""
    solvers = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    return [
        Pair(_after_mark(row["ground_truth"]), _after_mark(row[solver]["solution"]), row[solver]["is_correct"])
        for row in _rows(folder / "grade-school-math" / "example_model_solutions.jsonl")
        for solver in solvers
    ]


def qwen(folder: Path) -> list[Pair]:
    """Eight samples of a hundred MATH problems, nine of their negative labels set right."""
    return [
        Pair(row["gt"], answer, good or (row["idx"], sample) in _QWEN_MISLABELLED)
        for row in _rows(folder / "Qwen2.5-Math" / "math_cot_100.jsonl")
        for sample, (answer, good) in enumerate(zip(row["pred"], row["score"], strict=True))
    ]


def mathcoder_correct(folder: Path) -> list[Pair]:
    """Answers on MATH that a lenient grader passed."""
    return _mathcoder(folder / "MathCoder" / "L-7b_MATH-correct.jsonl")


def mathcoder_mixed(folder: Path) -> list[Pair]:
    """All answers on MATH of one model, among them prose and code."""
    return _mathcoder(folder / "MathCoder" / "CL-34b_minival.jsonl")


def hard_golds(folder: Path, count: int) -> list[str]:
    """Golds that are expressions, lists or relations, shuffled.

    All that OlympiadBench and Minerva have, then college mathematics up to `count`. Plain numbers,
    golds with words in them and chains of equations are left out.
    """
    qwen_folder = folder / "Qwen2.5-Math"
    olympiad = _rows(qwen_folder / "gold_olympiadbench.jsonl")
    minerva = _rows(qwen_folder / "gold_minerva_math.jsonl")
    college = _rows(qwen_folder / "gold_college_math.jsonl")
    rare = [gold for row in olympiad for gold in row["final_answer"]]
    rare += [_boxed(row["solution"]) for row in minerva]
    rng = random.Random(SEED)
    golds = _hard_ones(rare)
    rest = sorted(set(_hard_ones(row["answer"] for row in college)) - set(golds))
    rng.shuffle(rest)
    golds = (golds + rest)[:count] if len(golds) < count else golds
    rng.shuffle(golds)
    return golds[:count]


def labelled_file(path: Path) -> list[Pair]:
    """Pairs of a jsonl file with the keys gold, answer and label."""
    return [Pair(row["gold"], row["answer"], bool(row["label"])) for row in _rows(path)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"{path} is not there: benchmarks/README.md names the sources")
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _after_mark(solution: str) -> str:
    """What follows the last "A:"; nothing when the model never came to an answer."""
    _, mark, answer = solution.rpartition("A:")
    return answer.strip() if mark else ""


def _mathcoder(path: Path) -> list[Pair]:
    return [Pair(row["ground_truth"]["answer"], row["completion"]) for row in _rows(path)]


def _boxed(solution: str) -> str:
    """The content of the last box; empty when it never closes."""
    _, _, rest = solution.rpartition(r"\boxed{")
    depth = 1
    for position, character in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return rest[:position]
    return ""


def _bare(gold: str) -> str:
    """Without the dollars around it."""
    return gold.strip().strip("$").strip()


def _hard_ones(golds: Iterable[str]) -> list[str]:
    return sorted({bare for gold in golds if _is_hard(bare := _bare(gold))})


def _is_hard(gold: str) -> bool:
    clean = not any(mark in gold for mark in _UNCLEAR) and gold.count("=") < 2
    return clean and len(gold) >= 8 and not _WORDS.search(gold) and not _PLAIN.fullmatch(gold)
