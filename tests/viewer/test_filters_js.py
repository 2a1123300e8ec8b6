"""The filter language of the page, in JavaScript, held to the table that the Python one is held to."""

import json
from pathlib import Path

TABLE = Path(__file__).parents[1] / "cases" / "run_filters.jsonl"


def test_javascript_filters_as_the_table_says(page, site):
    """Every filter of the table gives the rows, or the message, that it says."""
    page.goto(site)
    head, *cases = map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())
    found = page.evaluate(
        """([{criteria, tags, rows}, cases]) => cases.map(({filter}) => {
            try {
                const read = Assay.filters.makeFilter(filter, criteria, tags);
                return rows.map((row, place) => [row, place])
                    .filter(([row]) => read.quick(row) && read.slow(row.text)).map(([, place]) => place);
            } catch (error) {
                return error.message;
            }
        })""",
        [head, cases],
    )
    for case, got in zip(cases, found, strict=True):
        assert got == case.get("rows", case.get("error")), case["filter"]


def test_a_value_is_quoted_where_a_filter_needs_it(page, site):
    page.goto(site)
    quoted = [
        page.evaluate("value => Assay.filters.quoteValue(value)", value)
        for value in ("a", "a b", 'a"b', "")
    ]
    assert quoted == ["a", '"a b"', '"ab"', '""']
