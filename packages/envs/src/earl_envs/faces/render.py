"""Pictures of games, drawn with NumPy alone."""

import colorsys
import textwrap
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game
from earl_envs.suggest import suggest

RENDER_MODES = ("ansi", "rgb_array")

_BACKGROUND = np.array([34, 38, 46], np.uint8)
_EMPTY = np.array([58, 64, 76], np.uint8)
_INK = np.array([226, 230, 236], np.uint8)
_CELL_PX = 32
_DISC_PX = 13  # radius
_GLYPH_ROWS, _GLYPH_COLUMNS = 5, 3
_INK_PX = 4  # side of one dot of a glyph
_MAX_COLUMNS = 48

# A character and five octal digits, one per row from the top; their bits are the dots of the row.
_FONT = r"""
A25755 B65656 C34443 D65556 E74647 F74644 G34553 H55755 I72227 J11152 K55655 L44447 M57755 N65555
O25552 P65644 Q25573 R65655 S34216 T72222 U55557 V55552 W55775 X55255 Y55222 Z71247 075557 126227
261247 361216 455711 574616 634757 771244 875757 975716 .00002 ,00024 :02020 ;02024 !22202 ?61202
'22000 "55000 -00700 _00007 +02720 =07070 *05250 /11244 \44211 |22222 (12221 )42224 [32223 ]62226
{32623 }62326 <12421 >42124 #57575 $36236 %51245 &25253 @25743 ^25000 ~03600 `42000
"""
_GLYPHS = {glyph[0]: glyph[1:] for glyph in _FONT.split()} | {" ": "00000"}
_UNKNOWN_GLYPH = "77777"


def check_render_mode(mode: object) -> None:
    """Refuse a mode that `render` does not know.

    Raises:
        ValueError: If it is neither None nor one of `RENDER_MODES`.
    """
    if mode is not None and mode not in RENDER_MODES:
        raise ValueError(suggest(str(mode), RENDER_MODES, what="render mode"))


def render(mode: str | None, game: Game, state: Hashable, seat: int) -> str | NDArray[np.uint8]:
    """Draw what `seat` sees: `ansi` as text, `rgb_array` as `render_rgb` does.

    Raises:
        ValueError: If the mode is another one, or None.
    """
    if mode == "ansi":
        return game.text(state, seat)
    if mode == "rgb_array":
        return render_rgb(game, state, seat)
    raise ValueError(f"render() needs render_mode in {RENDER_MODES}, got {mode!r}")


def render_rgb(game: Game, state: Hashable, seat: int) -> NDArray[np.uint8]:
    """Draw what `seat` sees, as pixels [height, width, 3].

    A game whose planes look like a board, several of at least three rows and columns, is drawn as
    discs, always of one size: each in the colour of the first plane that is set in its cell, the
    brighter the higher its value. Planes set everywhere are left out. Any other game is drawn as
    its text.
    """
    planes = game.planes(state, seat)
    if planes is not None and planes.ndim == 3 and len(planes) > 1 and min(planes.shape[1:]) > 2:
        return _draw_board(planes)
    return _draw_text(game.text(state, seat))


def _draw_board(planes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    planes = planes * (planes == 0).any(axis=(1, 2), keepdims=True)
    first = (planes > 0).argmax(axis=0)
    value = np.take_along_axis(planes, first[None], axis=0)[0]
    brightness = 0.5 + 0.5 * value / max(1, int(planes.max()))
    discs = _palette(len(planes))[first] * brightness[..., None]
    colours = np.where(value[..., None] > 0, discs, _EMPTY).astype(np.uint8)
    offsets = np.arange(_CELL_PX) - (_CELL_PX - 1) / 2
    inside = np.hypot(offsets[:, None], offsets) <= _DISC_PX
    pixels = colours.repeat(_CELL_PX, axis=0).repeat(_CELL_PX, axis=1)
    return np.where(np.tile(inside, value.shape)[..., None], pixels, _BACKGROUND)


def _palette(num_colours: int) -> NDArray[np.float64]:
    # Evenly spaced hues, own stones red.
    hues = [index / num_colours for index in range(num_colours)]
    return 255 * np.array([colorsys.hsv_to_rgb(hue, 0.75, 0.95) for hue in hues])


def _draw_text(text: str) -> NDArray[np.uint8]:
    lines = [
        piece
        for line in text.split("\n")
        for piece in textwrap.wrap(line, _MAX_COLUMNS, drop_whitespace=False) or [""]
    ]
    shape = (len(lines), max(1, *map(len, lines)), _GLYPH_ROWS + 1, _GLYPH_COLUMNS + 1)
    dots = np.zeros(shape, np.bool_)
    for row, line in enumerate(lines):
        for column, character in enumerate(line):
            dots[row, column, :-1, :-1] = _glyph(character)
    height, width = shape[0] * shape[2], shape[1] * shape[3]
    sheet = dots.transpose(0, 2, 1, 3).reshape(height, width)
    sheet = np.pad(sheet, ((1, 0), (1, 0)))
    pixels = sheet.repeat(_INK_PX, axis=0).repeat(_INK_PX, axis=1)
    return np.where(pixels[..., None], _INK, _BACKGROUND)


def _glyph(character: str) -> NDArray[np.bool_]:
    rows = _GLYPHS.get(character.upper(), _UNKNOWN_GLYPH)
    bits = np.array([int(row) for row in rows])[:, None] >> np.array([2, 1, 0])
    return (bits & 1).astype(np.bool_)
