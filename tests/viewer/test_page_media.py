"""Images, audio and PDFs of a rollout are shown on its page, from the run or the folder of its data, and nothing in them runs."""

import base64
import io
import re
import wave

import pytest
from PIL import Image
from playwright.sync_api import expect

from assay.cli import main
from assay.runs.run_writer import RunWriter
from assay.viewer.viewed_runs import ViewedRuns


def png(color="red"):
    file = io.BytesIO()
    Image.new("RGB", (40, 30), color).save(file, "PNG")
    return file.getvalue()


def wav():
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, 8000, 0, "NONE", ""))
        written.writeframes(bytes(8000))
    return file.getvalue()


PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'><script>window.pwned=2</script></svg>"


def part(kind, media_type, data):
    return {"type": kind, "media_type": media_type, "data": base64.b64encode(data).decode()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_run):
    """A run beside its data: row 1 has one of each, row 2 what is hostile or not there."""
    home = tmp_path_factory.mktemp("media")
    (home / "photo.png").write_bytes(png("blue"))
    good = [
        part("image", "image/png", png()),
        {"type": "image", "path": "photo.png"},
        part("audio", "audio/wav", wav()),
    ]
    bad = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"},
        },
        part("image", "image/png", b"<html><script>window.pwned=3</script>"),
        part("file", "application/pdf", b"<html><script>window.pwned=4</script>"),
        {"type": "image_url", "image_url": {"url": "https://198.51.100.1/x.png"}},
        {"type": "image", "path": "../secret.png"},
    ]
    data = [
        {
            "prompt": [
                {"role": "user", "content": [*parts, {"type": "text", "text": "What is it?"}]}
            ],
            "completion": [{"role": "assistant", "content": said}],
        }
        for parts, said in (
            (
                good,
                [{"type": "text", "text": "This, please."}, part("file", "application/pdf", PDF)],
            ),
            (bad, "Nothing."),
        )
    ]
    run = make_run(home / "run", data)
    with RunWriter(run) as writer:
        writer.save_about({**writer.read_run(), "data": {"source": str(home / "rows.jsonl")}})
    return run


@pytest.fixture
def watched(page, browser_thread):
    """The page, with an eye on broken policies and on every address that it asks for."""
    asked: list[str] = []

    def watch():
        page.add_init_script(
            "window.broken = []; addEventListener('securitypolicyviolation', (e) => broken.push(e.violatedDirective))"
        )
        page.on("request", lambda request: asked.append(request.url))

    browser_thread.submit(watch).result()
    page.asked = asked
    return page


@pytest.fixture
def site(serve, folder, monkeypatch):
    """The run, looked at from the folder of its data."""
    monkeypatch.chdir(folder.parent)
    return serve(folder)


def place_of(folder, number):
    return f"#/run/{next(iter(ViewedRuns([folder]).runs))}/row/{number}"


def test_images_audio_and_pdfs_are_shown_where_they_were_said(watched, look, site, folder):
    """At their address, without a request to another place."""
    page = look(site + place_of(folder, 1))
    prompt, completion = page.locator("article.message").first, page.locator("article.message").last
    expect(prompt.locator("figure.medium img")).to_have_count(2)
    for place in range(2):
        image = prompt.locator("figure.medium img").nth(place)
        image.scroll_into_view_if_needed()
        page.wait_for_function(
            "(image) => image.complete && image.naturalWidth === 40", arg=image.element_handle()
        )
    sound = prompt.locator("audio").element_handle()
    page.wait_for_function("(audio) => Math.abs(audio.duration - 0.5) < 0.01", arg=sound)
    expect(prompt.locator("figure.medium").first).to_contain_text("m1.image1: image/png, ")
    expect(completion.locator("object[type='application/pdf']")).to_have_attribute(
        "data", re.compile("^blob:")
    )
    expect(completion.locator("p.note a")).to_have_attribute("download", "m2.file1.pdf")
    assert page.evaluate("window.broken") == []
    assert [
        url for url in page.asked if not url.startswith((site, "data:", "blob:", "chrome"))
    ] == []


def test_what_is_not_what_it_says_is_not_shown(watched, look, site, folder):
    """SVG, HTML under another name, an address elsewhere, and a file outside of the folder: a sentence in its place."""
    page = look(site + place_of(folder, 2))
    figures = page.locator("figure.medium")
    expect(figures).to_have_count(5)
    expect(
        page.locator("figure.medium img, figure.medium object, figure.medium audio")
    ).to_have_count(0)
    expect(figures.nth(0)).to_contain_text("is declared as image/svg+xml")
    expect(figures.nth(4)).to_contain_text("which is not in")
    assert page.evaluate("[window.pwned, window.broken.length]") == [None, 0]
    assert [url for url in page.asked if not url.startswith((site, "data:"))] == []


def test_the_page_as_one_file_holds_them(watched, tmp_path, folder):
    """It opens from disk."""
    path = tmp_path / "page.html"
    assert (
        main(["report", str(folder), "-o", str(path), "--media-folder", str(folder.parent), "-q"])
        == 0
    )
    watched.goto(path.as_uri() + place_of(folder, 1))
    expect(watched.locator("figure.medium img")).to_have_count(2)
    expect(watched.locator("object[type='application/pdf']")).to_have_count(1)
    assert watched.evaluate("window.broken") == []
    assert [
        url for url in watched.asked if not url.startswith(("file:", "data:", "blob:", "chrome"))
    ] == []


def test_folders_outside_of_the_current_one_are_not_looked_into(folder, monkeypatch, tmp_path):
    """A run that came from elsewhere could name any; one that lies in the current folder is read."""
    for here, shown in ((folder.parent, True), (tmp_path, False)):
        monkeypatch.chdir(here)
        [viewed] = ViewedRuns([folder]).runs.values()
        assert ("url" in viewed.describe_row(1)["media"][1]) is shown
        assert "url" in viewed.describe_row(1)["media"][0]
