"""Tests of placeholders such as `{column}` in requirements, arguments of checks and prompts."""

import pytest

from assay.errors import ColumnError
from assay.placeholders import fill_values, has_placeholders, parse_template

ROW = {
    "refund_days": 30,
    "city": "Lyon",
    "info": {"city": "Paris", "names": ["Ada", "Bob"]},
    "order.id": "A-7",
    "Straße": "Hauptweg",
    "rate": 30.0,
    "share": 0.25,
    "empty": "",
    "missing": None,
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Refunds within {refund_days} days", "Refunds within 30 days"),
        ("{city}, not {info.city}", "Lyon, not Paris"),
        ("{info.names.1} wrote it", "Bob wrote it"),
        ("{order.id}", "A-7"),
        ("{Straße}", "Hauptweg"),
        ("{rate} and {share}", "30 and 0.25"),
        ("{info.names}", '["Ada", "Bob"]'),
        ("ORD_{city}", "ORD_Lyon"),
        ("^{city}$", "^Lyon$"),
        # Literal braces.
        ("{{city}}", "{city}"),
        ("{{{city}}}", "{Lyon}"),
        ('{"id": {"n": {refund_days}}}', '{"id": {"n": 30}}'),
        ('Returns {{"city": 1}} for {city}', 'Returns {"city": 1} for Lyon'),
        ("{{ city }} is Jinja", "{{ city }} is Jinja"),
        ("[a-z]{3} {} { city } {1}", "[a-z]{3} {} { city } {1}"),
        # LaTeX.
        (r"\frac{1}{2} and \frac{a}{b}", r"\frac{1}{2} and \frac{a}{b}"),
        (r"\text{city} in {city}", r"\text{city} in Lyon"),
        (r"\sqrt[3]{x} = x_{i} + 2^{n}", r"\sqrt[3]{x} = x_{i} + 2^{n}"),
        (r"\frac{\sqrt{x}}{y}", r"\frac{\sqrt{x}}{y}"),
        (r"\boxed{{{city}}}", r"\boxed{Lyon}"),
        (r"\boxed{in {city}}", r"\boxed{in Lyon}"),
        (r"\begin{align} a \end{align}", r"\begin{align} a \end{align}"),
        (r"\{city\} \p{L}", r"\{city\} \p{L}"),
        ("", ""),
    ],
)
def test_a_text_is_filled_with_the_values_of_a_row(text: str, filled: str) -> None:
    assert parse_template(text).fill(ROW) == filled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{order}", r"no column 'order' \(columns: Straße, city"),
        ("{citi}", "did you mean 'city'?"),
        ("{x_max}", "for literal braces write {{x_max}}"),
        ("{info.town}", r"'info' has no entry 'town' \(entries: city, names\)"),
        ("{info.names.7}", "'info.names' has 2 entries"),
        ("{city.upper}", "'city' is 'Lyon', which has no entry 'upper'"),
        ("{info.__class__}", "'info' has no entry '__class__'"),
        ("{missing}", "no value in column 'missing'"),
        ("{empty}", "no value in column 'empty'"),
    ],
)
def test_a_column_without_a_value_is_an_error_that_names_it(text: str, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        parse_template(text).fill(ROW)


def test_an_empty_text_is_a_value_if_it_is_allowed() -> None:
    assert parse_template("[{empty}]").fill(ROW, allow_empty=True) == "[]"


def test_a_filled_value_is_not_filled_again() -> None:
    assert parse_template("{a}").fill({"a": "{b}", "b": "secret"}) == "{b}"


def test_texts_inside_lists_and_mappings_are_filled() -> None:
    value = {"value": ["{city}", "{refund_days}"], "limit": "{refund_days}", "any_of": True}
    assert fill_values(value, ROW) == {"value": ["Lyon", 30], "limit": 30, "any_of": True}


def test_values_are_changed_by_the_function_that_writes_them() -> None:
    assert parse_template("{city}!").fill(ROW, write_value=str.upper) == "LYON!"


def test_only_texts_that_filling_would_change_have_placeholders() -> None:
    assert has_placeholders(["a", {"b": "{city}"}])
    assert has_placeholders("{{city}}")
    assert not has_placeholders([r"\frac{a}{b}", "{}", '{"a": 1}', 3, None])
