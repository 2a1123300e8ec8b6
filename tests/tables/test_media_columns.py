"""Columns of images, audio and PDFs become parts of the prompt, whatever holds them."""

import base64
import csv
import io
import json
import wave
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from assay import PerCriterionGrader, Rubric, media_access, rows_of
from assay.cli import main
from assay.media import read_medium
from assay.messages import MEDIA_COLUMNS, read_parts
from assay.models import model_of
from assay.runs import Run, score_rows
from assay.testing import ModelServer

TEXT = {"type": "text", "text": "What is this?"}


def picture(color: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 3), color).save(file, "PNG")
    return file.getvalue()


PNG = picture()
ENCODED = {"type": "image", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cats").mkdir()
    for color in ("red", "blue"):
        (tmp_path / "cats" / f"{color}.png").write_bytes(picture(color))
    (tmp_path / "rubric.yaml").write_text("- requirement: Names the colour\n  name: colour\n")
    return tmp_path


def content_of(row: dict[str, Any]) -> Any:
    [message] = next(rows_of([row]))["prompt"]
    assert message["role"] == "user"
    return message["content"]


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"image": "cats/red.png"}, [{"type": "image", "path": "cats/red.png"}]),
        (
            {"image": "https://example.org/a.png"},
            [{"type": "image", "url": "https://example.org/a.png"}],
        ),
        (
            {"images": ["a.png", "b.png"]},
            [{"type": "image", "path": "a.png"}, {"type": "image", "path": "b.png"}],
        ),
        (
            {"images": '["a.png", "b.png"]'},
            [{"type": "image", "path": "a.png"}, {"type": "image", "path": "b.png"}],
        ),
        ({"image": PNG}, [ENCODED]),
        ({"image": {"bytes": PNG, "path": "x.png"}}, [ENCODED]),
        ({"image": {"bytes": None, "path": "x.png"}}, [{"type": "image", "path": "x.png"}]),
        (
            {"pdf": "a.pdf", "audio": "b.wav"},
            [{"type": "audio", "path": "b.wav"}, {"type": "file", "path": "a.pdf"}],
        ),
    ],
)
def test_a_cell_becomes_parts_before_the_question(
    columns: dict[str, Any], parts: list[Any]
) -> None:
    """A path, a URL, bytes, the mapping that Hugging Face has of both, and a list of them."""
    assert content_of({"prompt": "What is this?", **columns}) == [*parts, TEXT]
    assert content_of({"question": "What is this?", **columns}) == [*parts, TEXT]


def test_places_in_the_prompt_are_filled_first() -> None:
    """As chats for training vision models keep them; what is left over goes before the last text of the user."""
    chat = [
        {"role": "user", "content": [TEXT, {"type": "image", "text": None}]},
        {"role": "assistant", "content": "Red."},
        {"role": "user", "content": "And this?"},
    ]
    [row] = rows_of([{"prompt": chat, "images": ["a.png", "b.png"], "completion": "Blue."}])
    assert row["prompt"][0]["content"] == [TEXT, {"type": "image", "path": "a.png"}]
    assert row["prompt"][2]["content"] == [
        {"type": "image", "path": "b.png"},
        {"type": "text", "text": "And this?"},
    ]
    assert row["images"] == ["a.png", "b.png"]
    assert chat[2]["content"] == "And this?"


@pytest.mark.parametrize(
    "row",
    [{"prompt": "x"}, {"prompt": "x", "image": None}, {"prompt": "x", "image": "", "images": []}],
)
def test_a_row_without_media_is_left_alone(row: dict[str, Any]) -> None:
    """Also one whose cell is empty."""
    assert list(rows_of([row])) == [row]


def test_what_is_no_medium_is_an_error_of_its_rollout() -> None:
    """The table is read, and no judge is asked with less."""
    [part, _] = read_parts(next(rows_of([{"prompt": "x", "image": 5}]))["prompt"], "y")[:2]
    with pytest.raises(
        ValueError, match=r"m1\.image1 is declared as image, but its bytes begin with b'5'"
    ):
        read_medium(part)


def test_images_and_audio_of_hugging_face_data_sets() -> None:
    """Decoded by it, and not; as Pillow and arrays, and as bytes and paths."""
    datasets = pytest.importorskip("datasets")
    plain = datasets.Dataset.from_dict(
        {"question": ["What?"], "image": [{"bytes": PNG, "path": None}]}
    )
    for features in (datasets.Image(), datasets.Image(decode=False)):
        [row] = rows_of(plain.cast_column("image", features))
        [part, _] = read_parts(row["prompt"], "x")[:2]
        assert Image.open(io.BytesIO(read_medium(part).data)).convert("RGB").getpixel((0, 0)) == (
            255,
            0,
            0,
        )


@pytest.mark.parametrize("channels", [1, 2])
def test_decoded_audio_is_written_as_wav(channels: int) -> None:
    """Several channels as their mean."""
    import numpy

    samples = numpy.array([0.0, 0.5, -1.0, 2.0])
    given = {
        "array": samples if channels == 1 else numpy.stack([samples, samples]),
        "sampling_rate": 8000,
    }
    [part, _] = read_parts(next(rows_of([{"prompt": "x", "audio": given}]))["prompt"], "y")[:2]
    medium = read_medium(part)
    assert medium.media_type == "audio/wav"
    with wave.open(io.BytesIO(medium.data)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 1, 4)
        assert numpy.frombuffer(file.readframes(4), "<i2").tolist() == [0, 16384, -32767, 32767]


def table(folder: Path, kind: str) -> Path:
    """Two rows with a picture each, as a table of this kind."""
    path = folder / f"rows.{kind}"
    rows = [
        {"prompt": "Which colour?", "completion": c.title(), "image": f"cats/{c}.png"}
        for c in ("red", "blue")
    ]
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        data = [
            {**row, "image": {"bytes": picture(row["completion"].lower()), "path": None}}
            for row in rows
        ]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(data), path)
    return path


def judge(system: str, user: str) -> str:
    return "MET"


@pytest.mark.parametrize(
    ("kind", "more"),
    [("csv", []), ("parquet", []), ("jsonl", ["--backend", "processes", "--workers", "1"])],
)
def test_the_command_line_judges_the_pictures_of_a_table(
    folder: Path, kind: str, more: list[str]
) -> None:
    """Paths are those of the table's folder; workers read them too."""
    with ModelServer(judge) as server:
        assert (
            main(
                [
                    "score",
                    str(table(folder, kind)),
                    "-r",
                    str(folder / "rubric.yaml"),
                    "--judge",
                    server.model,
                    "--judge-media",
                    "image",
                    "-o",
                    str(folder / "run"),
                    "--no-cache",
                    "-q",
                    *more,
                ]
            )
            == 0
        )
        sent = [
            part["image_url"]["url"]
            for asked in server.requests
            for part in asked.body["messages"][1]["content"]
            if part["type"] == "image_url"
        ]
    assert sorted(sent) == sorted(
        f"data:image/png;base64,{base64.b64encode(picture(c)).decode()}" for c in ("red", "blue")
    )
    rows = list(Run.open(folder / "run").rows())
    assert [row.score for row in rows] == [1.0, 1.0]


def test_a_judge_in_text_is_an_error_line_for_each(folder: Path, capfd: Any) -> None:
    """And another folder is read on request."""
    with ModelServer("MET") as server:
        base = [
            "score",
            str(table(folder, "csv")),
            "-r",
            str(folder / "rubric.yaml"),
            "--judge",
            server.model,
            "-f",
            "json",
            "-q",
        ]
        assert (main(base), server.requests) == (1, [])
        assert "cannot take m1.image1 (image, path cats/red.png)" in "".join(capfd.readouterr())
        (folder / "other").mkdir()
        assert main([*base, "--judge-media", "image", "--media-folder", str(folder / "other")]) == 1
        assert "which is not in" in "".join(capfd.readouterr())


async def test_a_run_keeps_the_paths_and_not_the_pictures(folder: Path) -> None:
    """So that it stays small."""
    with ModelServer("MET") as server, media_access(folder):
        grader = PerCriterionGrader(model=model_of(server.model, media="image"))
        rubric = Rubric.from_file(folder / "rubric.yaml", judge=grader)
        await score_rows(
            rubric, rows_of(table(folder, "csv")), folder=folder / "run", save_requests=True
        )
    saved = (folder / "run" / "run.assay").read_bytes()
    assert (b"cats/red.png" in saved, base64.b64encode(PNG)[20:60] in saved) == (True, False)


def test_every_column_has_a_kind() -> None:
    """And its plural."""
    assert {name for name in MEDIA_COLUMNS if not name.endswith("s")} == {"image", "audio", "pdf"}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_model_under_test_sees_the_pictures_of_a_table(
    folder: Path, kind: str, capfd: Any
) -> None:
    """As its endpoint takes them; one that cannot be read is an error of its rollout."""
    path = table(folder, kind)
    with ModelServer(lambda system, user: "MET" if "<criterion>" in user else "Red.") as server:
        options = [
            "-r",
            str(folder / "rubric.yaml"),
            "-m",
            server.model,
            "--judge",
            server.model,
            "--judge-media",
            "image",
            "--no-cache",
        ]
        assert main(["eval", str(path), *options, "-o", str(folder / "run"), "-q"]) == 0
        asked = [
            asked.body["messages"] for asked in server.requests if "<criterion>" not in asked.user
        ]
        if kind == "csv":
            (folder / "cats" / "blue.png").unlink()
            assert main(["eval", str(path), *options, "-o", str(folder / "again")]) == 1
    assert len(server.requests) in (4, 6)
    pictures = [
        f"data:image/png;base64,{base64.b64encode(picture(color)).decode()}"
        for color in ("red", "blue")
    ]
    expected = [
        [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": "Which colour?"},
        ]
        for url in pictures
    ]
    assert sorted(map(str, (messages[0]["content"] for messages in asked[:2]))) == sorted(
        map(str, expected)
    )
    if kind == "csv":
        errors = [row.error for row in Run.open(folder / "again").rows() if row.error]
        assert len(errors) == 1
        assert "m1.image1 names the file 'cats/blue.png', which is not in" in errors[0]


def test_a_run_is_scored_again_with_its_pictures(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read beside the data that the run names, if that is in the current folder; else an error says so."""
    data, rubric = table(folder, "csv"), str(folder / "rubric.yaml")
    with ModelServer("MET") as server:
        options = [
            "-r",
            rubric,
            "--judge",
            server.model,
            "--judge-media",
            "image",
            "--no-cache",
            "-q",
        ]
        assert main(["score", str(data), *options, "-o", str(folder / "run")]) == 0
        (folder / "elsewhere").mkdir()
        for here, code in ((folder, 0), (folder / "elsewhere", 1)):
            monkeypatch.chdir(here)
            (folder / "rubric.yaml").write_text(
                f"- requirement: Names the colour from {here.name}\n  name: colour\n"
            )
            assert (
                main(["score", str(folder / "run"), *options, "-o", str(folder / f"again{code}")])
                == code
            )
        told = [row.report.errors["colour"] for row in Run.open(folder / "again1").rows()]
        assert (
            main(
                [
                    "score",
                    str(folder / "run"),
                    *options,
                    "--media-folder",
                    str(folder),
                    "-o",
                    str(folder / "named"),
                ]
            )
            == 0
        )
    assert all("but no folder may be read: use media_access(folder)" in error for error in told)
