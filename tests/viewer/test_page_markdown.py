"""Markdown as shown by the page: what models write, with marks at the right words."""

import pytest

RENDER = """([text, marks]) => {
    const place = document.createElement("div");
    place.append(...Assay.markdown(text, marks));
    for (const one of place.querySelectorAll("[dir]")) one.removeAttribute("dir");
    for (const one of place.querySelectorAll("math")) one.replaceWith("MATH");
    for (const one of place.querySelectorAll(".math")) one.removeAttribute("title");
    return place.innerHTML;
}"""

CASES = [
    (
        "**a** *b* ***c*** ~~d~~",
        "<p><strong>a</strong> <em>b</em> <strong><em>c</em></strong> <s>d</s></p>",
    ),
    ("snake_case_name 2 * 3 * 4 **open", "<p>snake_case_name 2 * 3 * 4 **open</p>"),
    ("`a ``b`` c` \\*", "<p><code>a ``b`` c</code> *</p>"),
    ("$5 and $10, but $x$", '<p>$5 and $10, but <span class="math">MATH</span></p>'),
    (
        "\\(x\\) \\[y\\]",
        '<p><span class="math">MATH</span> <span class="math display">MATH</span></p>',
    ),
    ("$\\nothing{x}$", '<p><code class="math-source">$\\nothing{x}$</code></p>'),
    ("$$\nx\n- y\n$$", '<p><span class="math display">MATH</span></p>'),
    ("# a\n### b", '<h4 class="size-1">a</h4><h6 class="size-3">b</h6>'),
    ("- a\n  - b\n- c", "<ul><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'),
    ("> a\n>> b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("a\n\n---\nb", "<p>a</p><hr><p>b</p>"),
    (
        "<b>x</b>",
        '<p><span class="tag-text">&lt;b&gt;</span>x<span class="tag-text">&lt;/b&gt;</span></p>',
    ),
    ("[a](b)", '<p><span class="link-text">a<span class="address"> (b)</span></span></p>'),
]


def test_markdown_is_rendered_as_expected(open_page, site):
    page = open_page(site)
    for text, expected in CASES:
        assert page.evaluate(RENDER, [text, []]) == expected, text


def test_code_and_tables_are_rendered(open_page, site):
    page = open_page(site)
    html = page.evaluate(RENDER, ["```py\n**x**\n```", []])
    assert '<div class="language">py</div>' in html
    assert "<code>**x**\n</code>" in html
    html = page.evaluate(RENDER, ["|a|b|\n|-|-:|\n|1\\|2|`3`|", []])
    assert '<td>1|2</td><td class="right"><code>3</code></td>' in html


def test_marks_are_placed_at_the_offsets_of_python(open_page, site):
    """Python counts an emoji as one character, JavaScript as two; markup counts too."""
    page = open_page(site)
    text = "😀😀 **one** two\n- three\n> > fo**ur**"
    for words, expected in (
        ("one", ["one"]),
        ("one** two", ["one", " two"]),
        ("three", ["three"]),
        ("fo**ur", ["fo", "ur"]),
    ):
        start = text.index(words)
        marks = page.evaluate(
            """([text, start, end]) => {
                const marks = Assay.marks.marksOf([{ evidence: [{ start, end }] }], text);
                const place = document.createElement("div");
                place.append(...Assay.markdown(text, marks));
                return [...place.querySelectorAll("mark")].map((one) => one.textContent);
            }""",
            [text, start, start + len(words)],
        )
        assert marks == expected


@pytest.mark.slow
def test_a_long_text_of_unclosed_markup_is_rendered(open_page, site):
    """300,000 characters, the limit of "Show all", however many elements they could start."""
    page = open_page(site)
    pieces = [
        "\\(",
        "`a",
        "*a ",
        "**a ",
        "_a ",
        "~~a ",
        "[a",
        "\u202e",
        "- - ",
        "|-",
        "$a",
        "<a",
        "> - ",
    ]
    for piece in pieces:
        length = page.evaluate(
            """text => {
                const place = document.createElement("div");
                Assay.dom.fill(place, Assay.markdown(text, []));
                return place.textContent.length;
            }""",
            piece * (300_000 // len(piece)) + "x",
        )
        assert length > 0, piece
    divider = "a|b\n" + "-" * 1_990 + "|x\n"
    assert page.evaluate(RENDER, [divider, []]).startswith("<p>a|b")
