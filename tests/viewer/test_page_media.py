"""The page shows images, audio and PDFs of rollouts without running anything in them."""

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
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 8000, 0, "NONE", ""))
        writer.writeframes(bytes(8000))
    return file.getvalue()


PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'><script>window.pwned=2</script></svg>"


def make_part(part_type, media_type, data):
    return {"type": part_type, "media_type": media_type, "data": base64.b64encode(data).decode()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_run):
    """A run next to its data: row 1 has one of each kind, and row 2 hostile or missing files."""
    parent = tmp_path_factory.mktemp("media")
    (parent / "photo.png").write_bytes(png("blue"))
    good = [
        make_part("image", "image/png", png()),
        {"type": "image", "path": "photo.png"},
        make_part("audio", "audio/wav", wav()),
    ]
    bad = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"},
        },
        make_part("image", "image/png", b"<html><script>window.pwned=3</script>"),
        make_part("file", "application/pdf", b"<html><script>window.pwned=4</script>"),
        {"type": "image_url", "image_url": {"url": "https://198.51.100.1/x.png"}},
        {"type": "image", "path": "../secret.png"},
    ]
    data = [
        {
            "prompt": [
                {"role": "user", "content": [*parts, {"type": "text", "text": "What is it?"}]}
            ],
            "completion": [{"role": "assistant", "content": content}],
        }
        for parts, content in (
            (
                good,
                [
                    {"type": "text", "text": "This, please."},
                    make_part("file", "application/pdf", PDF),
                ],
            ),
            (bad, "Nothing."),
        )
    ]
    run = make_run(parent / "run", data)
    with RunWriter(run) as writer:
        writer.save_about({**writer.read_run(), "data": {"source": str(parent / "rows.jsonl")}})
    return run


@pytest.fixture
def monitored_page(page, browser_thread):
    """The page, with a record of policy violations and of every URL that it requests."""
    requested_urls: list[str] = []

    def watch():
        page.add_init_script(
            "window.broken = []; addEventListener('securitypolicyviolation', (e) => broken.push(e.violatedDirective))"
        )
        page.on("request", lambda request: requested_urls.append(request.url))

    browser_thread.submit(watch).result()
    page.requested_urls = requested_urls
    return page


@pytest.fixture
def site(serve, folder, monkeypatch):
    """The URL of the run, served from the folder of its data."""
    monkeypatch.chdir(folder.parent)
    return serve(folder)


def address_of_row(folder, number):
    return f"#/run/{next(iter(ViewedRuns([folder]).runs))}/row/{number}"


def test_images_audio_and_pdfs_are_shown_in_their_message(monitored_page, open_page, site, folder):
    """With their location, and without a request to another server."""
    page = open_page(site + address_of_row(folder, 1))
    prompt, completion = page.locator("article.message").first, page.locator("article.message").last
    expect(prompt.locator("figure.medium img")).to_have_count(2)
    for index in range(2):
        image = prompt.locator("figure.medium img").nth(index)
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
        url for url in page.requested_urls if not url.startswith((site, "data:", "blob:", "chrome"))
    ] == []


def test_files_with_a_wrong_or_unsafe_type_are_not_shown(monitored_page, open_page, site, folder):
    """SVG, HTML with another type, a URL, and a file outside of the folder: an explanation is shown instead."""
    page = open_page(site + address_of_row(folder, 2))
    figures = page.locator("figure.medium")
    expect(figures).to_have_count(5)
    expect(
        page.locator("figure.medium img, figure.medium object, figure.medium audio")
    ).to_have_count(0)
    expect(figures.nth(0)).to_contain_text("is declared as image/svg+xml")
    expect(figures.nth(4)).to_contain_text("which is not in")
    assert page.evaluate("[window.pwned, window.broken.length]") == [None, 0]
    assert [url for url in page.requested_urls if not url.startswith((site, "data:"))] == []


def test_a_report_contains_the_media(monitored_page, tmp_path, folder):
    """It can be opened from disk."""
    path = tmp_path / "page.html"
    assert (
        main(["report", str(folder), "-o", str(path), "--media-folder", str(folder.parent), "-q"])
        == 0
    )
    monitored_page.goto(path.as_uri() + address_of_row(folder, 1))
    expect(monitored_page.locator("figure.medium img")).to_have_count(2)
    expect(monitored_page.locator("object[type='application/pdf']")).to_have_count(1)
    assert monitored_page.evaluate("window.broken") == []
    assert [
        url
        for url in monitored_page.requested_urls
        if not url.startswith(("file:", "data:", "blob:", "chrome"))
    ] == []


def test_media_outside_of_the_current_folder_are_not_read(folder, monkeypatch, tmp_path):
    """A run from elsewhere could name any folder; one inside the current folder is read."""
    for current_folder, is_shown in ((folder.parent, True), (tmp_path, False)):
        monkeypatch.chdir(current_folder)
        [viewed] = ViewedRuns([folder]).runs.values()
        assert ("url" in viewed.describe_row(1)["media"][1]) is is_shown
        assert "url" in viewed.describe_row(1)["media"][0]
