"""What counts as the form that was asked for."""

from earl_trainer.rewards.functions.reply_form import exact_form


def test_the_form_is_one_tag_and_nothing_else(told):
    good = ["[5]", " [5]\n", "<answer>5</answer>", "<think>[1] or [5]?</think>\n[5]"]
    bad = ["5", "I take [5]", "[5] [6]", "[5", "<answer>5", "[]", "<answer>[5]</answer>", ""]
    for reply in good:
        assert exact_form(told("any", reply)) == 1.0, reply
    for reply in bad:
        assert exact_form(told("any", reply)) == 0.0, reply
    assert exact_form(told("any", "[5]", "5", "[6]", "[7]")) == 0.75
