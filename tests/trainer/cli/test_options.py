"""Options that fit, and one line about those that do not."""

import pytest
from earl_trainer.cli.options import OptionParser, number_from_0, positive_int, positive_number


@pytest.fixture
def parser():
    parser = OptionParser("earl test", description="First line.\nSecond line.")
    parser.add_argument("--num", type=positive_int, default=3, help="(default: %(default)s)")
    parser.add_argument("--rate", type=positive_number)
    parser.add_argument("--delay", type=number_from_0)
    return parser


def test_values_are_read_as_what_they_are(parser):
    options = parser.read(["--num", "7", "--rate=2.5", "--delay", "0"])
    assert (options.num, options.rate, options.delay) == (7, 2.5, 0.0)
    assert parser.read([]).num == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--num", "0"), "--num: must be a whole number >= 1, got '0'"),
        (("--num", "1.5"), "--num: must be a whole number >= 1, got '1.5'"),
        (("--num", "²"), "--num: must be a whole number >= 1, got '²'"),
        (("--rate", "0"), "--rate: must be a number > 0, got '0'"),
        (("--rate", "-1"), "--rate: must be a number > 0, got '-1'"),
        (("--rate", "nan"), "--rate: must be a number > 0, got 'nan'"),
        (("--rate", "inf"), "--rate: must be a number > 0, got 'inf'"),
        (("--delay", "-1"), "--delay: must be a number >= 0, got '-1'"),
        (("--delay", "soon"), "--delay: must be a number >= 0, got 'soon'"),
        (("--rate",), "--rate: expected one argument"),
        (("--rte", "1"), "unknown option '--rte'; did you mean '--rate'? (valid: "),
        (("--ra=1",), "unknown option '--ra'"),
        (("more",), "expected an --option, got 'more'"),
        (("--rate", "1", "2", "--no"), "expected an --option, got '2'"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(parser, arguments, message):
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        parser.read(arguments)
    assert str(caught.value).startswith(message)


def test_the_help_keeps_the_lines_of_its_description(parser):
    text = parser.format_help()
    assert text.startswith("usage: earl test ")
    assert "First line.\nSecond line.\n" in text
    assert "(default: 3)" in text
