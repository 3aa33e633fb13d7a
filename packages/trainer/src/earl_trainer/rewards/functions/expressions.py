r"""Mathematical expressions, as models and data sets write them, compared by value."""

import ast
import cmath
import operator
import re
from collections.abc import Callable, Mapping

# Two expressions that agree here agree everywhere but for a coincidence, whatever their form:
# identity testing at generic points (Schwartz, 1980, J. ACM 27). Roots have other signs elsewhere.
_POINTS = (0.731 + 0.217j, -1.393 + 0.651j, 2.129 - 1.013j, -0.417 - 1.777j)
_RELATIVE = 1e-9
_MAX_EXPONENT = 1000.0

_DECORATION = re.compile(
    r"\\(left|right|displaystyle|,|!|;|:| |quad|qquad)|\\?\$|\^\{?\\circ\}?|[°~]"
)
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\{([^{}]*)\}")
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d])")
# LaTeX sets no space behind these: they are in no list.
_MARKED_COMMA = re.compile(r"(?<=\d)(?:,\\!|\{,\})(?=\d{3})")
_FRACTION = re.compile(r"\\[dtc]?frac\{([^{}]*)\}\{([^{}]*)\}")
_SHORT_FRACTION = re.compile(r"\\[dtc]?frac(\d)(\d)")
_ROOT = re.compile(r"\\sqrt(?:\[([^\[\]]*)\])?\{([^{}]*)\}")
_SHORT_ROOT = re.compile(r"\\sqrt(\w)")
_MIXED = re.compile(r"(?<![\d.)])(\d+)\s+(\d+)\s*/\s*(\d+)")
_MIXED_LATEX = re.compile(r"(?<![\d.)])(\d+)\s*(\\[dtc]?frac\{\d+\}\{\d+\}|\\[dtc]?frac\d\d)")
_NAMED = re.compile(r"^[A-Za-z]\s*=(?!=)\s*")
_APPLIED = re.compile(r"(?<![A-Za-z])([A-Za-z])\s*(?=\()")
_NEIGHBOURS = re.compile(r"(?<=[\d)])\s*(?=[A-Za-z(])|(?<=\))\s*(?=\d)")

_BINARY: Mapping[type[ast.operator], Callable[[complex, complex], complex]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: lambda base, exponent: _power(base, exponent),
}
_NAMES: Mapping[str, complex] = {"pi": complex(cmath.pi), "e": complex(cmath.e), "i": 1j}
_FUNCTIONS: Mapping[str, Callable[[complex], complex]] = {
    "sqrt": cmath.sqrt,
    "log": cmath.log,
    "ln": cmath.log,
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "exp": cmath.exp,
}


class UnreadableError(ValueError):
    """What was written is no expression that this reads."""


def normalise(text: str) -> str:
    r"""Write an answer in one notation: plain characters, no decoration, no thousands separators.

    `\dfrac{1}{2}`, `\frac12` and `$1/2$` become `((1)/(2))` and `1/2`, `1,234` becomes `1234`, the
    mixed number `1\frac{1}{2}` a sum, `x = 5` becomes `5`. The rules are those that
    the MATH data set needs (Hendrycks et al., arXiv:2103.03874; Lewkowycz et al., arXiv:2206.14858,
    appendix D.1).
    """
    return in_one_notation(without_thousands(undecorated(text)))


def undecorated(text: str) -> str:
    r"""Take off what says nothing: spacing, dollars, `x =`, the last dot.

    The braces of sets lose their backslash.
    """
    text = _DECORATION.sub("", _MARKED_COMMA.sub("", text)).strip().rstrip(".").strip()
    return _NAMED.sub("", text.replace("\\{", "{").replace("\\}", "}"))


def without_thousands(text: str) -> str:
    """Take out commas between groups of three digits."""
    return _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)


def in_one_notation(text: str) -> str:
    """Write an undecorated answer, or a part of one, in plain characters."""
    text = _MIXED_LATEX.sub(r"(\1+\2)", _TEXT.sub(r"\1", text).strip())
    text = _MIXED.sub(r"(\1+\2/\3)", _SHORT_FRACTION.sub(r"((\1)/(\2))", text))
    text = _SHORT_ROOT.sub(r"\\sqrt{\1}", text)
    while (changed := _ROOT.sub(_root, _FRACTION.sub(r"((\1)/(\2))", text))) != text:
        text = changed
    for latex, plain in (("\\cdot", "*"), ("\\times", "*"), ("\\div", "/"), ("\u2212", "-")):
        text = text.replace(latex, plain)
    return re.sub(r"\\(?=[A-Za-z])", "", text).replace("\\%", "%").strip()


def evaluate(text: str) -> tuple[complex, ...]:
    """Return a normalised expression's value at some fixed points of its letters.

    Letters but e, i and pi are variables, each at points of its own.

    Raises:
        UnreadableError: If it is none, or has no value there.
    """
    source = text.replace("^", "**").replace("{", "(").replace("}", ")")
    source = _APPLIED.sub(r"\1*", _NEIGHBOURS.sub("*", source))
    try:
        tree = ast.parse(source, mode="eval").body
        return tuple(_value(tree, place) for place in range(len(_POINTS)))
    except (SyntaxError, ArithmeticError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"no expression: {text!r}") from error


def agree(first: tuple[complex, ...], second: tuple[complex, ...]) -> bool:
    """Return whether two expressions have one value at all points, up to rounding."""
    return all(
        cmath.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_RELATIVE)
        for one, other in zip(first, second, strict=True)
    )


def _root(found: re.Match[str]) -> str:
    degree, inner = found[1], found[2]
    return f"(({inner})**(1/({degree})))" if degree else f"sqrt({inner})"


def _power(base: complex, exponent: complex) -> complex:
    # Towers of exponents take for ever, and overflow in the end.
    if abs(exponent) > _MAX_EXPONENT:
        raise OverflowError(f"an exponent must be at most {_MAX_EXPONENT:g}, got {exponent}")
    return base**exponent


def _value(node: ast.expr, place: int) -> complex:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return complex(number)
        case ast.Name(id=name):
            return _name(name, place)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, place)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, place)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _BINARY[type(sign)](_value(left, place), _value(right, place))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument, place))
        case _:
            raise UnreadableError("it is no arithmetic")


def _name(name: str, place: int) -> complex:
    if name in _NAMES:
        return _NAMES[name]
    if len(name) != 1 or not name.isascii():
        raise UnreadableError(f"{name!r} is no letter")
    return _POINTS[place] * (1.0 + 0.137 * (ord(name) - ord("a")))
