r"""Parse an answer into a tree: operators by precedence over tokens, in time linear in the text.

From loosest to tightest: `,` and/or · `= < ∈` · `∪ ∩ \` · `+ − ±` · `· / ÷` · side by side ·
`^ ! %`.
"""

import re
from math import factorial, prod
from typing import Final

from flint import fmpq

from assay.math import tree, words
from assay.math.approximation import keep_exact_part
from assay.math.construction import (
    apply_function,
    attach_unit,
    divide,
    expand_determinant,
    is_proper_fraction,
    list_items,
    make_cases,
    make_letter,
    make_product,
    make_tuple_or_interval,
    multiply,
    transpose,
)
from assay.math.integrals import NoIntegralError, integrate
from assay.math.markup import MAX_DEPTH
from assay.math.tokens import (
    MathToken,
    TokenReader,
    UnreadableError,
    compute_repeating_decimal,
    parse_decimal_with_ellipsis,
    parse_number,
    tokenize,
)
from assay.math.units import is_unit
from assay.math.words import (
    CONNECTIVES,
    DENIALS,
    FUNCTIONS,
    GREEK,
    NO_FACTORS,
    NO_UNITS,
    ORDINALS,
    PERCENT,
    SETS,
)

TOO_DEEP: Final = "it nests too deep"
# Levels of a tree: `5!!!…` and `1/2/2/…` have one for each sign, though no bracket opens.
_MAX_TREE_HEIGHT: Final = 2 * MAX_DEPTH
_MAX_WRITTEN_NODES: Final = 3000  # of sums, products and determinants that are written out
_MAX_DOUBLE_FACTORIAL: Final = 3000

_TWO: Final = tree.Number(fmpq(2))
_THREE: Final = tree.Number(fmpq(3))
_CONSTANTS: Final[dict[str, tree.Node]] = {
    name: tree.NamedSet("empty") if meaning == "empty" else tree.Constant(meaning)  # pyright: ignore[reportArgumentType]
    for name, meaning in words.CONSTANTS.items()
}

# Signs and commands.
_SET_OPERATIONS: Final = words.notations("set operation")
_TIMES: Final = frozenset(words.notations("times"))
_DIVIDED: Final = frozenset(words.notations("divided"))
_SIGNS: Final = frozenset({"+", "-", r"\pm", r"\mp"})
_POWER_SIGNS: Final = frozenset({"^", "**"})
_LOGIC: Final = words.notations("logic")
_CONNECTIVES: Final = CONNECTIVES | _LOGIC
_MODULI: Final = frozenset(words.notations("modulus"))
_DECORATIONS: Final = frozenset(words.notations("decoration"))
_FONTS: Final = frozenset(words.notations("font"))
_VECTORS: Final = frozenset(words.notations("vector"))
_GRIDS: Final = frozenset(words.notations("grid"))
_FENCES: Final = {  # by opening: the closing, and the function of what stands between
    r"\lfloor": (r"\rfloor", "floor"),
    r"\lceil": (r"\rceil", "ceil"),
    r"\lvert": (r"\rvert", "abs"),
}
_DEGREE_SIGNS: Final = ((r"\circ",), ("{", r"\circ", "}"), ("{", r"\degree", "}"))
# Commands that end a run of factors.
_ENDS_OF_FACTORS: Final = _SIGNS.union(
    words.notations("stop"),
    _MODULI,
    words.RELATIONS,
    _SET_OPERATIONS,
    _TIMES,
    _DIVIDED,
    _CONNECTIVES,
)
_SIGNS_BEHIND_UNITS: Final = frozenset({",", ";", ")", "]", "/", "^", r"\}", "}"})

# Functions.
_FUNCTION_LETTERS: Final = frozenset("fgh")  # which name functions, where brackets follow
_INVERTIBLE: Final = frozenset({"sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"})
_LONG_FUNCTIONS_FIRST: Final = sorted(
    (name for name in FUNCTIONS if len(name) > 2 and name.islower()), key=len, reverse=True
)

_DIFFERENTIAL: Final = re.compile(r"d[a-zA-Z]")
# The endings of 1st, 2nd and so on, as words and as products of two letters.
_ORDINAL_ENDINGS: Final = (
    *(tree.Words(ending) for ending in ORDINALS),
    *(tree.Product((tree.Symbol(ending[0]), tree.Symbol(ending[1]))) for ending in ORDINALS),
)


def parse(text: str, *, loose: bool = False, grouped: bool = True) -> tuple[tree.Node, bool]:
    """Return the tree of a text, and whether its loose and its strict reading differ.

    A `loose` reading of `1/2x` is (1/2)x, and a strict one 1/(2x). If `grouped`, `1,234` is one
    number. Raises `UnreadableError` if the text is not in the grammar.
    """
    grammar = Grammar(tokenize(text, grouped=grouped), loose=loose)
    try:
        node = grammar.read_answer()
        if grammar.token.kind != "end":
            raise grammar.unexpected_token()
    except RecursionError:
        raise UnreadableError(TOO_DEEP) from None
    # Trees are compared recursively, so a tree of thousands of levels must not get that far.
    if tree.measure_height(node) > _MAX_TREE_HEIGHT:
        raise UnreadableError(TOO_DEEP)
    return node, grammar.is_ambiguous


class Grammar(TokenReader):
    """Reads one text. In a loose reading, `1/2x` is (1/2)x, as people often mean, not 1/(2x)."""

    def __init__(self, tokens: list[MathToken], *, loose: bool = False) -> None:
        super().__init__(tokens)
        self.is_ambiguous = False  # whether a loose reading differs from a strict one
        self._loose = loose
        self._has_vectors = any(token.value in _VECTORS for token in tokens)
        self._open_bars = 0  # of absolute values, within the innermost bracket
        self._in_braces = False  # whether the innermost bracket is that of a set
        self._written_nodes = 0  # of sums and determinants that were written out

    # Lists and relations.

    def read_answer(self) -> tree.Node:
        """Read one statement, or several with commas, semicolons, `and` or `or` between them."""
        groups = [[self._read_statement()]]  # of statements, separated by semicolons
        joined = ","  # how the statements are connected: the most specific connective
        is_logic = False  # whether a sign such as ∧ connects them
        while True:
            connective = self._take_connectives()
            if connective is None:
                break
            if connective not in (",", ";"):
                joined = connective
            if self.token.kind == "end" or self.token.value in (")", "]", r"\}"):
                # A comma at the end is ignored, an `and` has to be followed by a statement.
                if connective in ("and", "or"):
                    raise self.unexpected_token()
                break
            if self.previous.value in _LOGIC:
                is_logic = True
            if connective == ";":
                groups.append([])
            groups[-1].append(self._read_statement())

        have_same_length = len({len(group) for group in groups}) == 1
        if len(groups) > 1 and have_same_length and len(groups[0]) > 1:
            # `1, 2; 3, 4` is a list of pairs.
            tuples = [tree.Listing("round", tuple(group)) for group in groups]
            return tree.Listing("bare", tuple(tuples))
        items = [item for group in groups for item in group]
        if is_logic and not all(isinstance(item, tree.Relation) for item in items):
            raise UnreadableError("logic that joins no relations")
        if len(items) > 1:
            return tree.Listing("bare", tuple(items), joined)  # pyright: ignore[reportArgumentType]
        (item,) = items
        if self.take(r"\over"):
            return divide(item, self.read_answer())
        if self.take(r"\choose"):
            return tree.Apply("binomial", (item, self.read_answer()))
        return item

    def _take_connectives(self) -> str | None:
        """Read all connectives that come next, and return the most specific: `and` of `, and`."""
        connective: str | None = None
        while True:
            meaning = _find_connective(self.token)
            if meaning is None:
                return connective
            if connective in (None, ",", ";"):
                connective = meaning
            self.advance()

    def _read_statement(self) -> tree.Node:
        """Read an expression, or a chain of relations."""
        first = self._read_set_expression()
        if isinstance(first, tree.Words) and self.take(":"):
            return tree.Relation((first, self._read_set_expression()), ("=",))
        sides = [self._read_ratio(first)]
        operators: list[str] = []
        while self.token.value in words.RELATIONS:
            operators.append(words.RELATIONS[self.advance().value])
            sides.append(self._read_ratio(self._read_set_expression()))
        if not operators:
            return sides[0]
        if operators[-1] == "mod" and self._is_at_modulus():
            sides[-1] = tree.Apply("mod", (sides[-1], self._read_modulus()))
        return keep_exact_part(sides, operators)

    def _read_ratio(self, first: tree.Node) -> tree.Node:
        """Read the other terms of a ratio, after `:` or `to`. If there are none, return `first`."""
        terms = [first]
        while self._is_at_ratio_sign():
            self.advance()
            terms.append(self._read_sum())
        if len(terms) == 1:
            return first
        return tree.Listing("ratio", tuple(terms))

    def _is_at_ratio_sign(self) -> bool:
        """Return True before the `:` or the `to` of a ratio."""
        if self.token.value == ":":
            return not self._in_braces  # in a set, a colon stands before the condition
        return self.token.value.strip() == "to"

    def _is_at_modulus(self) -> bool:
        r"""Return True before `\pmod 3`, `\mod 3` or `(mod 3)`."""
        if self.token.value in _MODULI:
            return True
        return self.token.value == "(" and self.peek(1).value.strip() == "mod"

    def _read_modulus(self) -> tree.Node:
        r"""Read the modulus of `\pmod 3`, `\mod 3` or `(mod 3)`."""
        if self.advance().value != "(":
            return self._read_script()
        self.advance()  # the word `mod`
        modulus = self._read_sum()
        self.expect(")")
        return modulus

    def _read_set_expression(self) -> tree.Node:
        """Read a sum, or sets with unions, intersections and differences between them."""
        left = self._read_sum()
        while True:
            operator = _SET_OPERATIONS.get(self.token.value)
            if self._is_at_letter_for_union():
                operator = "union"
            if operator is None:
                return left
            if tree.is_value(left) and not tree.find_symbols(left):
                # `7 \backslash 8` is not a difference of sets.
                raise UnreadableError("a number is not a set, and has no union or difference")
            self.advance()
            left = tree.SetOperation(operator, left, self._read_sum())  # pyright: ignore[reportArgumentType]

    def _is_at_letter_for_union(self) -> bool:
        """Return True before a `U` between two intervals, as in `(-oo,1) U (3,oo)`."""
        if self.token.value != "U" or self.previous.value not in (")", "]"):
            return False
        if self.peek(1).value not in ("(", "["):
            return False
        has_comma = False
        for token in self.tokens[self.position + 2 :]:
            if token.value in (")", "]", "(", "["):
                return has_comma
            if token.value == ",":
                has_comma = True
        return False

    # Sums, products and powers.

    def _read_sum(self) -> tree.Node:
        """Read terms with their signs. A single term is returned as it is."""
        terms = [self._read_term()]
        while self.token.value in _SIGNS:
            terms.append(self._read_term())
        if len(terms) == 1:
            return terms[0]
        return tree.Sum(tuple(terms))

    def _read_term(self) -> tree.Node:
        """Read a product with the sign before it."""
        sign = ""
        if self.token.value in _SIGNS:
            sign = self.advance().value
        # Of two signs in a row, the second can only be a minus, as in `3 + -2`.
        if self.token.value in _SIGNS and self.token.value != "-":
            raise self.unexpected_token()
        term = self._read_product()
        match sign:
            case "-":
                return tree.negate(term)
            case r"\pm":
                return tree.PlusMinus(term, upper=True)
            case r"\mp":
                return tree.PlusMinus(term, upper=False)
            case _:
                return term

    def _read_product(self) -> tree.Node:
        """Read factors with signs of multiplication and division between them, and units behind."""
        product = self._read_factors()
        while True:
            operator = self.token.value
            if operator in _TIMES and self.token.kind != "word":
                if operator == r"\times" and self._has_vectors:
                    raise UnreadableError("a cross product")
                self.advance()
                product = multiply(product, self._read_signed_factors())
            elif operator in _DIVIDED:
                self.advance()
                product = divide(product, self._read_divisor())
                if self._loose and self._is_at_factor():
                    product = multiply(product, self._read_factors())
            elif self._is_at_unit():
                product = self._read_unit(product)
            else:
                return product

    def _read_signed_factors(self) -> tree.Node:
        """Read factors that may have a sign: `2 · −3`."""
        if self.take("-"):
            return tree.negate(self._read_signed_factors())
        self.take("+")
        return self._read_factors()

    def _read_divisor(self) -> tree.Node:
        """Read what stands behind `/`: all factors side by side, or only one in a loose reading.

        If the two readings differ, this is noted in `is_ambiguous`.
        """
        if self.take("-"):
            return tree.negate(self._read_divisor())
        first = self._read_power()
        if not self._is_at_factor():
            return first
        self.is_ambiguous = True
        if self._loose:
            return first
        return self._read_more_factors([first])

    def _read_factors(self) -> tree.Node:
        """Read factors with no sign between them, such as `2x(y+1)`, or a mixed number."""
        starts_with_number = self.token.kind == "number"
        first = self._read_power()
        if starts_with_number:
            return self._read_more_factors(self._read_mixed_number(first))
        return self._read_more_factors([first])

    def _read_more_factors(self, factors: list[tree.Node]) -> tree.Node:
        """Read further factors with no sign between them, and return the product with these."""
        while self._is_at_factor():
            if self.token.kind == "number" and self.previous.kind == "number":
                raise self.unexpected_token()
            factors.append(self._read_power())
        return make_product(factors)

    def _is_at_factor(self) -> bool:
        """Return True if what comes next is multiplied without a sign."""
        token = self.token
        match token.kind:
            case "number" | "word":
                if token.value in NO_FACTORS:
                    return False
                return not self._is_at_unit() and not self._is_at_letter_for_union()
            case "command":
                return token.value not in _ENDS_OF_FACTORS
            case "sign" if token.value == "(":
                return not self._is_at_modulus()
            case "sign" if token.value == "|":
                # Else the bar closes an absolute value, or stands before the condition of a set.
                return self._open_bars == 0 and not self._in_braces
            case "sign":
                return token.value == "{"
            case _:
                return False

    def _read_mixed_number(self, whole: tree.Node) -> list[tree.Node]:
        r"""Read the fraction of `1\frac12` or `1 1/2`, and return the mixed number.

        If the fraction turns out to be a factor (`2\frac{x}{3}`), both factors are returned. To
        read it again would double the work at every level of `2\frac{2\frac{…}{1}}{1}`.
        """
        is_whole = isinstance(whole, tree.Number) and whole.value.q == 1 and not whole.decimal
        if is_whole and self.token.value == r"\frac":
            fraction = self._read_power()
            mixed_number = _add_to_fraction(whole, fraction)
            return [whole, fraction] if mixed_number is None else [mixed_number]
        numerator, slash, denominator = self.peek(0), self.peek(1), self.peek(2)
        is_fraction = (
            numerator.kind == "number" and slash.value == "/" and denominator.kind == "number"
        )
        if is_whole and is_fraction and numerator.has_space_before:
            top = parse_number(numerator.value)
            bottom = parse_number(denominator.value)
            if is_proper_fraction(top, bottom):
                self.position += 3
                return [tree.Sum((whole, tree.Quotient(top, bottom)))]
        return [whole]

    def _read_power(self) -> tree.Node:
        """Read an operand with the exponents, `!` and `%` behind it."""
        node = self._read_operand()
        while True:
            token = self.token
            is_percent_word = token.kind == "text" and token.value.strip().lower() in PERCENT
            if token.value in _POWER_SIGNS:
                self.advance()
                node = self._read_exponent(node)
            elif token.value == "!":
                node = self._read_factorial(node)
            elif token.value in ("%", r"\%") or is_percent_word:
                self.advance()
                node = tree.Percent(node)
            elif self.take(r"\degree"):
                node = tree.Quantity(node, "degree")
            else:
                return node

    def _read_factorial(self, node: tree.Node) -> tree.Node:
        """Read one `!`. `5!!` is 5·3·1, and not a factorial of a factorial."""
        is_repeated = self.previous.value == "!" and not self.token.has_space_before
        self.advance()
        if not is_repeated:
            return tree.Apply("factorial", (node,))
        match node:
            case tree.Apply("factorial", (tree.Number(number),)):
                if number.q == 1 and 0 <= number.p < _MAX_DOUBLE_FACTORIAL:
                    return tree.Number(fmpq(prod(range(int(number.p), 0, -2))))
            case _:
                pass
        # Nothing is concluded from other runs of signs.
        return tree.Apply("multifactorial", (node,))

    def _read_exponent(self, base: tree.Node) -> tree.Node:
        r"""Read what stands above a base. `^\circ` makes it degrees, and `^{th}` an ordinal."""
        if any(self.take_sequence(*signs) for signs in _DEGREE_SIGNS):
            return tree.Quantity(base, self._read_temperature_scale())
        if isinstance(base, tree.Symbol) and self._take_prime():
            return tree.Symbol(f"{base.name}'")
        exponent = self._read_script()
        if self.token.value in _POWER_SIGNS:
            self.advance()
            exponent = self._read_exponent(exponent)
        if exponent in _ORDINAL_ENDINGS:
            return base
        if exponent == tree.Symbol("T") and isinstance(base, tree.Grid | tree.Listing):
            return transpose(base)
        return tree.Power(base, exponent)

    def _take_prime(self) -> bool:
        r"""Read the `\prime` behind a `^`, and return whether there is one."""
        return self.take(r"\prime") or self.take_sequence("{", r"\prime", "}")

    def _read_temperature_scale(self) -> str:
        r"""Read the scale behind a degree sign: `20^\circ C`. Without one it is an angle."""
        scale = self.token.value.strip()
        if scale in ("C", "F", "K") and self.peek(1).kind in ("end", "sign"):
            self.advance()
            return scale
        return "degree"

    # Units.

    def _is_at_unit(self) -> bool:
        r"""Return True before words in `\text{…}`, or before the name of a unit behind a value."""
        token = self.token
        if token.kind == "text":
            return token.value.strip().lower() not in NO_UNITS
        if token.kind != "word" or self.position == 0:
            return False
        is_behind_value = self.previous.kind in ("number", "text") or self.previous.value in (
            "}",
            ")",
            "/",
        )
        if not is_behind_value:
            return False
        if token.value in ORDINALS:
            return True
        # A unit ends its value, so only words, certain signs or nothing may follow it.
        following = self.peek(1)
        ends_value = (
            following.kind in ("end", "text", "word") or following.value in _SIGNS_BEHIND_UNITS
        )
        return ends_value and is_unit(token.value)

    def _read_unit(self, value: tree.Node) -> tree.Node:
        r"""Read the units or words behind a value, and return the value with them.

        Examples are `5 cm`, `5 \text{ apples}` and `9.8 \text{m}/\text{s}^2`.
        """
        parts = [self.advance().value]
        while True:
            token = self.token
            if self._is_at_unit():
                parts.append(self.advance().value)
            elif self.take("^"):
                exponent = self._read_script()
                if not isinstance(exponent, tree.Number):
                    raise self.unexpected_token()
                parts.append(f"^{exponent.value}")
            elif token.value in ("/", r"\cdot") and self.peek(1).kind in ("text", "word"):
                self.advance()
                parts.append("/" if token.value == "/" else "·")
                parts.append(self.advance().value)
            else:
                break
        words_with_single_spaces = " ".join(parts).split()
        unit = " ".join(words_with_single_spaces).replace(" ^", "^")
        return attach_unit(value, unit)

    # Operands: what stands between operators.

    def _read_operand(self) -> tree.Node:
        """Read what stands between operators: a number, a name, a command or a bracket."""
        token = self.advance()
        match token.kind:
            case "number":
                return self._read_numeral(token.value)
            case "word":
                return self._read_word(token.value)
            case "text":
                return self._read_text(token.value)
            case "command":
                return self._read_command(token.value)
            case _:
                pass
        match token.value:
            case "(" | "[" | "]":
                return self._read_bracket(token.value)
            case "{":
                node = self.read_answer()
                self.expect("}")
                return node
            case "|":
                self._open_bars += 1
                node = self._read_sum()
                self._open_bars -= 1
                self.expect("|")
                return tree.Apply("abs", (node,))
            case "-":
                return tree.negate(self._read_power())
            case _:
                raise self.unexpected_token(token)

    def _read_script(self) -> tree.Node:
        """Read what stands above or below: a group, a number with its sign, or one operand."""
        if self.token.value == "{":
            return self._read_command_argument()
        if self.take("-"):
            return tree.negate(self._read_script())
        self.take("+")
        if self.token.kind == "word" and self.token.value not in FUNCTIONS:
            return self._read_command_argument()
        return self._read_operand()

    def _read_command_argument(self) -> tree.Node:
        r"""Read the argument of a command: a group in braces, or one character as in `\frac12`."""
        token = self.token
        has_several_characters = len(token.value) > 1
        if token.kind == "number" and has_several_characters and token.value.isdigit():
            return tree.Number(fmpq(int(self.take_first_character())))
        if self.take("{"):
            node = self._read_nested_answer()
            self.expect("}")
            return node
        if token.kind == "word" and has_several_characters and token.value not in _CONSTANTS:
            return make_letter(self.take_first_character())
        return self._read_operand()

    def _read_nested_answer(self, *, in_braces: bool = False) -> tree.Node:
        """Read an answer in brackets, where the bars and braces around them do not count.

        A bar in the brackets cannot close one that was opened outside. `in_braces` says that the
        brackets are the braces of a set.
        """
        outer_open_bars = self._open_bars
        was_in_braces = self._in_braces
        self._open_bars = 0
        self._in_braces = in_braces
        node = self.read_answer()
        self._open_bars = outer_open_bars
        self._in_braces = was_in_braces
        return node

    # Numerals.

    def _read_numeral(self, text: str) -> tree.Node:
        """Return the number that begins with these digits, with what follows them.

        That may be an ellipsis, a bar over recurring digits, or a base.
        """
        has_point = "." in text
        if has_point and self.token.value in ("...", r"\ldots", r"\dots", r"\cdots"):
            self.advance()
            return parse_decimal_with_ellipsis(text)
        if has_point and self.token.value in (r"\overline", r"\bar", r"\dot"):
            period = self._read_period()
            if period:
                whole, _, decimals = text.partition(".")
                return tree.Number(compute_repeating_decimal(whole, decimals, period))
        if self.token.value == "_" and text.isdigit():
            token = self.advance()
            base = self._read_script()
            if isinstance(base, tree.Number) and base.value.q == 1 and 1 < base.value.p <= 36:
                return tree.Based(text, int(base.value.p))
            # Only a base can stand below a number, so there is no other way to read this.
            raise self.unexpected_token(token)
        return parse_number(text)

    def _read_period(self) -> str:
        r"""Read the digits under a bar, or from one dot to the next: `\dot{1}4285\dot{7}`.

        Empty if a command that may be a bar or a dot has no digits in braces behind it.
        """
        command, opening, digits, closing = [self.peek(distance).value for distance in range(4)]
        if opening != "{" or not digits.isdigit() or closing != "}":
            return ""
        self.position += 4
        if command == r"\dot":
            return digits + self._read_period_to_next_dot()
        return digits

    def _read_period_to_next_dot(self) -> str:
        r"""Read the rest of a period behind its first dot: `4285\dot{7}`. It may be empty."""
        digits_between = ""
        is_at_digits = self.token.kind == "number" and self.token.value.isdigit()
        if is_at_digits and self.peek(1).value == r"\dot":
            digits_between = self.advance().value
        if self.token.value != r"\dot":
            return ""
        return digits_between + self._read_period()

    # Words and letters.

    def _read_word(self, word: str) -> tree.Node:
        """Read a run of letters: a constant, a function, a Greek letter, or letters side by side."""
        if word in ("sqrt", "cbrt"):
            index = _TWO if word == "sqrt" else _THREE
            return tree.Apply("root", (self._read_command_argument(), index))
        known = self._read_known_name(word)
        if known is not None:
            return known
        if len(word) == 1:
            return self._read_subscripts(make_letter(word))
        if len(word) > 3 or word.lower() in DENIALS:
            if self.token.value in ("=", ":"):
                return tree.Words(word.casefold())
            self.position -= 1  # back to the word, for its position in the text
            raise UnreadableError(f"the word {word!r} at {self.token.start} is not mathematics")
        # Go back and read only the first letter, because in `xy^2` only y is squared.
        self.position -= 1
        return make_letter(self.take_first_character())

    def _read_known_name(self, name: str) -> tree.Node | None:
        """Read the rest of a constant, a Greek letter or a function. None for other names."""
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in GREEK:
            return self._read_subscripts(tree.Symbol(name))
        if name in FUNCTIONS:
            return self._read_function(FUNCTIONS[name])
        return None

    def _read_text(self, text: str) -> tree.Node:
        r"""Read what `\text{…}` holds: a letter, a function, or words."""
        text = " ".join(text.split())
        if len(text) == 1 and text.isalpha():
            return self._read_subscripts(make_letter(text))
        if text in FUNCTIONS:
            return self._read_function(FUNCTIONS[text])
        return tree.Words(text.casefold())

    def _read_subscripts(self, letter: tree.Node) -> tree.Node:
        """Return a letter with the subscripts and primes behind it, or a call such as `f(x)`."""
        if not isinstance(letter, tree.Symbol | tree.Constant):
            return letter
        name = letter.name
        while self.token.value in ("_", "'", r"\prime"):
            if self.advance().value == "_":
                name += f"_{self._read_label()}"
            else:
                name += "'"
        if self._is_at_inverse(letter.name):
            self.expect("^", "{", "-", "1", "}")
            name += "^{-1}"
        if isinstance(letter, tree.Symbol) and self._is_at_function_argument(letter.name):
            self.advance()
            arguments = list_items(self.read_answer())
            self.expect(")")
            return tree.Apply(f"{name}()", arguments)
        return letter if name == letter.name else tree.Symbol(name)

    def _is_at_inverse(self, letter: str) -> bool:
        r"""Return True before the rest of `f^{-1}(x)`, the inverse of a function."""
        following = [self.peek(distance).value for distance in range(6)]
        return letter in _FUNCTION_LETTERS and following == ["^", "{", "-", "1", "}", "("]

    def _is_at_function_argument(self, letter: str) -> bool:
        """Return True before the argument of `f(x)` or `y(0)`. `x(y + 1)` is a product."""
        if self.token.value != "(" or self.token.has_space_before:
            return False
        is_at_number = self.peek(1).kind == "number" and self.peek(2).value == ")"
        return letter in _FUNCTION_LETTERS or is_at_number

    def _read_label(self) -> str:
        """Read a name: a group in braces, or one character."""
        if not self.take("{"):
            if self.token.kind == "word" and len(self.token.value) > 1:
                return self.take_first_character()
            return self.advance().value.strip()
        parts: list[str] = []
        while not self.take("}"):
            parts.append(self.advance().value.strip())
        return "".join(parts)

    # Brackets.

    def _read_bracket(self, opening: str) -> tree.Node:
        """Read a bracketed expression, a tuple, a list or an interval."""
        if opening == "[" and self.take("]"):
            return tree.NamedSet("empty")
        inside = self._read_nested_answer()
        token = self.advance()
        closing = {r"\rbrack": "]", r"\rparen": ")"}.get(token.value, token.value)
        if closing not in (")", "]", "["):
            raise self.unexpected_token(token)
        if opening == "]" or closing == "[":
            # French intervals, such as `]2,5[`.
            if not isinstance(inside, tree.Listing) or len(inside.items) != 2:
                raise self.unexpected_token(token)
            low, high = inside.items
            return tree.Range(low, high, low_open=opening != "[", high_open=closing != "]")
        if isinstance(inside, tree.Listing) and inside.kind == "bare":
            return make_tuple_or_interval(inside.items, opening, closing)
        if (opening, closing) == ("(", ")"):
            return inside
        if (opening, closing) != ("[", "]"):
            raise UnreadableError(f"the brackets {opening}…{closing} hold no interval")
        if isinstance(inside, tree.Grid):
            return inside
        return tree.Listing("square", (inside,))

    def _read_set(self) -> tree.Node:
        """Read a set behind its opening brace: its members, or a condition behind `|` or `:`."""
        if self.take(r"\}") or self.take(r"\rbrace"):
            return tree.NamedSet("empty")
        inside = self._read_nested_answer(in_braces=True)
        if any(self.take(bar) for bar in ("|", ":", r"\mid", r"\vert")):
            inside = tree.Builder(inside, self._read_nested_answer(in_braces=True))
        if not self.take(r"\rbrace"):
            self.expect(r"\}")
        if isinstance(inside, tree.Builder):
            return inside
        return tree.Listing("set", list_items(inside))

    def _read_angle_brackets(self) -> tree.Node:
        r"""Read a vector behind `\langle`. A single item is returned as it is."""
        inside = self.read_answer()
        self.expect(r"\rangle")
        items = list_items(inside)
        if len(items) == 1:
            return inside
        return tree.Listing("round", items)

    # Commands.

    def _read_command(self, command: str) -> tree.Node:
        r"""Read what a command such as `\frac` stands for, with its arguments."""
        name = command[1:]
        known = self._read_known_name(name)
        if known is not None:
            return known
        if command in _FENCES:
            closing, function = _FENCES[command]
            inside = self._read_sum()
            self.expect(closing)
            return tree.Apply(function, (inside,))
        if command in _FONTS:
            return self._read_font_argument()
        if command in _DECORATIONS:
            return self._read_subscripts(tree.Symbol(f"{name}({self._read_label()})"))
        match command:
            case r"\frac":
                numerator = self._read_command_argument()
                return divide(numerator, self._read_command_argument())
            case r"\binom" | r"\dbinom" | r"\tbinom":
                upper = self._read_command_argument()
                return tree.Apply("binomial", (upper, self._read_command_argument()))
            case r"\sqrt":
                return self._read_root()
            case r"\surd":
                return self._read_root_sign()
            case r"\angle" | r"\triangle":
                return tree.Symbol(f"{name} {self._read_corners()}")
            case r"\{" | r"\lbrace":
                return self._read_set()
            case r"\langle":
                return self._read_angle_brackets()
            case r"\mathbb":
                return self._read_number_set()
            case r"\operatorname":
                return self._read_name(self._read_label())
            case r"\begin":
                return self._read_environment()
            case r"\sum":
                terms = self._write_out_steps()
                return tree.Sum(terms)
            case r"\prod":
                factors = self._write_out_steps()
                return tree.Product(factors)
            case r"\int":
                return self._read_integral()
            case _:
                return self._read_function_without_space(name)

    def _read_root(self) -> tree.Node:
        r"""Read the index and the radicand of `\sqrt[3]{8}`."""
        index: tree.Node = _TWO
        if self.take("["):
            index = self._read_sum()
            self.expect("]")
        return tree.Apply("root", (self._read_command_argument(), index))

    def _read_root_sign(self) -> tree.Node:
        """Read what stands behind the sign √. In `√12`, the whole number is under the root."""
        is_number = self.token.kind == "number"
        radicand = self._read_power() if is_number else self._read_operand()
        return tree.Apply("root", (radicand, _TWO))

    def _read_corners(self) -> str:
        r"""Read the letters of `\angle ABC`, or its group or number."""
        if self.token.kind == "word":
            return self.advance().value
        if self.token.kind == "sign" and self.token.value != "{":
            raise self.unexpected_token()
        return self._read_label()

    def _read_number_set(self) -> tree.Node:
        r"""Read a set such as `\mathbb{R}`, or the positive numbers `\mathbb{R}^+`."""
        name = self._read_label()
        if name not in SETS:
            raise UnreadableError(f"the set {name!r} is not known")
        if name == "R" and self.token.value == "^":
            has_plus = "+" in (self.peek(1).value, self.peek(2).value)
            if has_plus:
                self.advance()
                if self._read_label() == "+":
                    zero = tree.Number(fmpq(0))
                    return tree.Range(zero, _CONSTANTS["infinity"], low_open=True, high_open=True)
        if self.token.value in ("^", "_"):
            raise UnreadableError(f"{name} with a script is not known")
        return tree.NamedSet(name)

    def _read_font_argument(self) -> tree.Node:
        r"""Read a letter, a name or an expression in another font, such as `\mathrm{e}`."""
        if self.token.value == "{" and self.peek(1).kind == "word" and self.peek(2).value == "}":
            name = self.peek(1).value
            self.position += 3
            return self._read_name(name)
        return self._read_command_argument()

    def _read_name(self, name: str) -> tree.Node:
        r"""Return what a name stands for that was marked as one, as in `\operatorname{name}`.

        A function is read with its arguments, a variable with its subscripts.
        """
        if len(name) == 1:
            return self._read_subscripts(make_letter(name))
        if name in FUNCTIONS:
            return self._read_function(FUNCTIONS[name])
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name.isalpha() and len(name) < 4:
            return self._read_subscripts(tree.Symbol(name))
        return tree.Words(name.casefold())

    def _write_out_steps(self) -> tuple[tree.Node, ...]:
        r"""Read the limits and the term of a sum or product, and return its terms for all steps.

        For `_{k=1}^{3} k^2` they are 1², 2² and 3². Sums and products without end are left to
        math-verify.
        """
        self.expect("_", "{")
        name = self.advance().value  # of the variable
        self.expect("=")
        low = tree.evaluate_rational(self._read_sum())
        self.expect("}", "^")
        high = tree.evaluate_rational(self._read_script())
        body = self._read_product()
        rest = self.tokens[self.position :]
        is_variable_in_rest = any(name in token.value for token in rest)
        if len(name) != 1 or is_variable_in_rest:
            raise UnreadableError("it is not clear where a sum ends")
        if low is None or high is None or low.q != 1 or high.q != 1:
            raise UnreadableError("a sum without numbers for its limits")
        steps = range(int(low.p), int(high.p) + 1)
        step_count = int(high.p) - int(low.p) + 1  # len(steps) fails for huge numbers
        if step_count < 1:
            raise UnreadableError("a sum whose limits are turned round")
        self._count_written_nodes(step_count * len(tree.list_nodes(body)))
        variable = make_letter(name)
        return tuple(tree.substitute(body, variable, tree.Number(fmpq(step))) for step in steps)

    def _count_written_nodes(self, count: int) -> None:
        """Count nodes that are written out. Raises `UnreadableError` if there are too many.

        Without this limit, a short text could become a huge tree.
        """
        self._written_nodes += count
        if self._written_nodes > _MAX_WRITTEN_NODES:
            raise UnreadableError("a sum or determinant of too many terms")

    def _read_integral(self) -> tree.Node:
        r"""Read an integral between two limits, and return its value as an expression of them."""
        self.expect("_")
        low = self._read_script()
        self.expect("^")
        high = self._read_script()
        end = self._find_differential()  # the position of `dx`
        variable = tree.Symbol(self.tokens[end].value[1])
        # The integrand is read on its own, since `dx` would be taken for one of its factors.
        end_token = MathToken("end", "", self.tokens[end].start, has_space_before=False)
        integrand_grammar = Grammar([*self.tokens[self.position : end], end_token])
        integrand = integrand_grammar._read_sum()
        if integrand_grammar.token.kind != "end":
            raise UnreadableError("an integral that does not end before its variable")
        self.position = end + 1
        try:
            return integrate(integrand, variable, low, high)
        except NoIntegralError as error:
            raise UnreadableError(str(error)) from None

    def _find_differential(self) -> int:
        """Return the position of the next token such as `dx`."""
        for position in range(self.position + 1, len(self.tokens)):
            if _DIFFERENTIAL.fullmatch(self.tokens[position].value):
                return position
        raise UnreadableError("an integral over nothing")

    def _read_function_without_space(self, name: str) -> tree.Node:
        r"""Read a function and its argument with no space between them: `\cotx`."""
        self.position -= 1  # back to the command, of which the rest becomes the next token
        for function in _LONG_FUNCTIONS_FIRST:
            if name.startswith(function):
                break
        else:
            raise self.unexpected_token()
        argument_start = self.token.start + len(function) + 1
        self.tokens[self.position] = MathToken(
            "word", name[len(function) :], argument_start, has_space_before=False
        )
        return self._read_function(FUNCTIONS[function])

    # Matrices and cases.

    def _read_environment(self) -> tree.Node:
        r"""Read a matrix, its determinant, or cases between `\begin` and `\end`."""
        name = self._read_label()
        if name not in _GRIDS:
            raise UnreadableError(f"the environment {name!r} is not known")
        if name == "array" and self.token.value == "{":
            self._read_label()  # the alignment of the columns
        rows = self._read_rows(has_conditions=name == "cases")
        if len({len(row) for row in rows}) > 1:
            raise UnreadableError("the rows of a matrix differ in length")
        match name:
            case "cases":
                return make_cases(rows)
            case "vmatrix":
                # A determinant of n rows has n! terms. More than 9! are too many in any case.
                nodes_in_cells = sum(len(tree.list_nodes(cell)) for row in rows for cell in row)
                term_count = factorial(min(len(rows), 9))
                self._count_written_nodes(term_count * nodes_in_cells)
                return expand_determinant(rows)
            case _:
                return tree.Grid(tuple(rows))

    def _read_rows(self, *, has_conditions: bool) -> list[tuple[tree.Node, ...]]:
        r"""Read rows of statements up to `\end` and its name.

        With `has_conditions`, the cells after the first of a row may begin with the word `if`.
        """
        rows: list[tuple[tree.Node, ...]] = []
        while True:
            row = [self._read_statement()]
            self.take(",")
            while self.take("&"):
                if has_conditions:
                    self._take_condition_word()
                row.append(self._read_statement())
            self.take(",")
            rows.append(tuple(row))
            has_line_break = self.take(r"\\")
            if self.take(r"\end"):
                self._read_label()
                return rows
            if not has_line_break:
                raise self.unexpected_token()

    def _take_condition_word(self) -> None:
        """Read the `if` before a condition, if there is one."""
        token = self.token
        if token.kind == "text" and token.value.strip(" ,") in ("if", "for", "when"):
            self.advance()

    # Functions.

    def _read_function(self, name: str) -> tree.Node:
        r"""Read the base, the power and the arguments of a function: `\log_2 8`, `\sin^2 x`.

        `\sin^{-1} x` is the arcsine.
        """
        base: tree.Node | None = None
        exponent: tree.Node | None = None
        while self.token.value == "_" or self.token.value in _POWER_SIGNS:
            if self.advance().value == "_":
                base = self._read_script()
            else:
                exponent = self._read_script()
        arguments = self._read_arguments()
        if exponent == tree.MINUS_ONE and name in _INVERTIBLE:
            return apply_function(f"arc{name}", arguments, base)
        node = apply_function(name, arguments, base)
        if exponent is None:
            return node
        return tree.Power(node, exponent)

    def _read_arguments(self) -> tuple[tree.Node, ...]:
        """Read what a function is applied to: a group, or factors up to the next sign."""
        match self.token.value:
            case "(" | "[" as opening:
                self.advance()
                inside = self._read_bracket(opening)
                if isinstance(inside, tree.Listing) and inside.kind in ("round", "square"):
                    return inside.items
                return (inside,)
            case "{":
                inside = self._read_command_argument()
                if isinstance(inside, tree.Listing):
                    return inside.items
                return (inside,)
            case "|" | r"\lvert":
                return (self._read_power(),)
            case _:
                return (self._read_argument_without_brackets(),)

    def _read_argument_without_brackets(self) -> tree.Node:
        r"""Read factors and divisors up to the next bracket or function: `\sin 2x/3 \cos y`.

        `\sin x/\cos x` divides two functions.
        """
        if self.take("-"):
            return tree.Product((tree.MINUS_ONE, self._read_argument_without_brackets()))
        factors = [self._read_power()]
        while True:
            if self.token.value == "/" and not self._is_function(self.peek(1)):
                self.advance()
                factors = [divide(make_product(factors), self._read_power())]
            elif self._is_at_argument_factor():
                factors.append(self._read_power())
            else:
                return make_product(factors)

    def _is_at_argument_factor(self) -> bool:
        """Return True before another factor of a function's argument without brackets."""
        is_bracket = self.token.value in ("(", "[", "{", "|")
        return self._is_at_factor() and not is_bracket and not self._is_function(self.token)

    def _is_function(self, token: MathToken) -> bool:
        """Return True if a token is the name of a function."""
        if token.kind not in ("word", "command"):
            return False
        name = token.value.lstrip("\\")
        return name in FUNCTIONS or name == "operatorname"


def _add_to_fraction(whole: tree.Node, fraction: tree.Node) -> tree.Node | None:
    """Return the mixed number of a whole number and a fraction, such as `1 1/2`.

    The fraction may have a unit or percent sign, which the mixed number then has. None if the two
    are a product, such as `2 x/3`.
    """
    bare_fraction = fraction
    if isinstance(fraction, tree.Quantity | tree.Percent):
        bare_fraction = fraction.value
    if not isinstance(bare_fraction, tree.Quotient):
        return None
    if not is_proper_fraction(bare_fraction.top, bare_fraction.bottom):
        return None
    mixed_number = tree.Sum((whole, bare_fraction))
    return tree.substitute(fraction, bare_fraction, mixed_number)


def _find_connective(token: MathToken) -> str | None:
    """Return the connective that a token stands for: `,`, `;`, `and` or `or`."""
    match token.kind:
        case "sign" if token.value in (",", ";"):
            return token.value
        case "word" | "text" | "command":
            return _CONNECTIVES.get(token.value.strip().lower())
        case _:
            return None
