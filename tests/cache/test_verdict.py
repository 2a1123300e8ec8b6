"""Keys and verdicts: what makes two questions the same one, and what may be kept."""

import math
from dataclasses import replace

import pytest

from assay.cache import CachedVerdict, VerdictKey, text_hash
from assay.errors import CacheError

KEY = VerdictKey(question="q", text=text_hash("a"), judge="m", prompt="1", sample=0)


@pytest.mark.parametrize(
    "change",
    [{"question": "r"}, {"text": text_hash("b")}, {"judge": "n"}, {"prompt": "2"}, {"sample": 1}],
    ids=lambda change: next(iter(change)),
)
def test_a_key_changes_with_each_of_its_parts(change):
    """Whatever could change the verdict is another question."""
    assert replace(KEY, **change).digest != KEY.digest


def test_parts_cannot_run_into_each_other():
    """`ab` + `c` is not `a` + `bc`."""
    one, other = replace(KEY, judge="ab", prompt="c"), replace(KEY, judge="a", prompt="bc")
    assert one.digest != other.digest


def test_half_a_surrogate_pair_has_a_hash():
    """Models under test write such things, and they must not stop a run."""
    assert text_hash("\ud83d") != text_hash("\ude00")


def test_a_key_that_a_database_cannot_hold_is_refused_when_it_is_made():
    """Later it would be one bad row in a batch of good ones."""
    with pytest.raises(CacheError, match=r"judge 'a.*NUL"):
        replace(KEY, judge="a\0b")


@pytest.mark.parametrize("nothing", ["", None])
def test_a_failure_is_not_kept(nothing):
    """It would be given as an answer for ever."""
    with pytest.raises(CacheError, match="is not a verdict and is not cached"):
        CachedVerdict(nothing)


@pytest.mark.parametrize("verdict", ["MET", 0, 0.5, 0.0])
def test_a_verdict_comes_back_from_its_line_as_it_was(verdict):
    """Zero included, which is an answer."""
    kept = CachedVerdict(
        verdict, reason="“weil”\n\0", usage={"prompt": 3}, cost=0.25, details={"model": "m-1"}
    )
    assert CachedVerdict.of(kept.line) == kept


def test_a_line_of_a_later_version_is_read_as_far_as_it_is_known():
    """Fields may be added."""
    line = CachedVerdict("MET", created=1.0).line[:-1] + ',"mood":"good"}'
    assert CachedVerdict.of(line) == CachedVerdict("MET", created=1.0)


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"verdict":null}', "null"])
def test_a_line_that_is_no_verdict_is_an_error(line):
    """Never a made-up one."""
    with pytest.raises(CacheError):
        CachedVerdict.of(line)


@pytest.mark.parametrize("what", [math.nan, math.inf, object()])
def test_what_json_cannot_hold_says_so(what):
    """With the value."""
    with pytest.raises(CacheError, match="use only what JSON can hold"):
        _ = CachedVerdict("MET", details={"x": what}).line
