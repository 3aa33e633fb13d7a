r"""Units behind a number: `12\text{ cm}` is a number and what it counts."""

import re

_VALUE = r"(?P<value>.*[\d)}\]])\s*"
_POWER = r"(?:\^\{?[23]\}?|[²³])?"
# Written in text of LaTeX, whatever has no figure in it is a unit.
_MARKED = re.compile(
    _VALUE
    + r"\\(?:text|mathrm|mbox|textbf|mathbf|operatorname)\{\s*(?P<unit>[A-Za-z][^{}\d]*)\}"
    + rf"(?P<power>{_POWER})",
    re.DOTALL,
)
# Written plainly only these are: `5xy` and `3m` are products of letters.
_WORD = (
    r"(?:mm|cm|km|meters?|metres?|inch(?:es)?|in|ft|foot|feet|yards?|yd|miles?|mi|ms|seconds?|sec|"
    r"minutes?|min|hours?|hrs?|days?|weeks?|months?|years?|mg|kg|grams?|lbs?|pounds?|oz|ounces?|"
    r"ml|liters?|litres?|mph|dollars?|cents?|degrees?|deg|radians?|rad|square units?|units?)"
)
_PLAIN = re.compile(
    _VALUE
    + rf"(?P<unit>(?:(?:square|sq|cubic)\s+)?{_WORD}{_POWER}(?:\s*(?:/|per)\s*{_WORD}{_POWER})?)",
    re.DOTALL | re.IGNORECASE,
)


def split_unit(text: str) -> tuple[str, str]:
    """Return what stands in front of a unit, and the unit, empty where there is none.

    The plain words are lengths, times, weights, money and angles, as the answers of MATH have them
    (Lewkowycz et al., arXiv:2206.14858, appendix D.1).
    """
    if marked := _MARKED.fullmatch(text):
        return marked["value"], _bare(marked["unit"] + marked["power"])
    if plain := _PLAIN.fullmatch(text):
        return plain["value"], _bare(plain["unit"])
    return text, ""


def _bare(unit: str) -> str:
    return re.sub(r"[\s.{}^]", "", unit.replace("²", "2").replace("³", "3"))
