import pytest
from earl_trainer.preference.config import PreferenceConfig
from earl_trainer.preference.losses import PreferenceSettings
from earl_trainer.preference.methods import METHODS, Reference, Source
from earl_trainer.preference.objective import JudgedObjective, PairObjective
from pydantic import TypeAdapter


def test_the_configuration_offers_every_method():
    offered = TypeAdapter(PreferenceConfig).json_schema()["properties"]["name"]["enum"]
    assert set(offered) == {"none", *METHODS}


def test_only_losses_with_a_reference_have_one():
    references = {name: method.reference for name, method in METHODS.items()}
    assert {name for name, kind in references.items() if kind is Reference.BEFORE} == {
        "dpo",
        "ipo",
        "kto",
    }
    assert {name for name, kind in references.items() if kind is Reference.ITERATE} == {"spin"}


def test_what_learns_from_pairs_has_a_loss_of_pairs():
    for method in METHODS.values():
        from_pairs = method.source in (Source.PAIRS, Source.AGAINST_SELF)
        assert (method.loss is not None) == from_pairs


@pytest.mark.parametrize(
    ("name", "kind"), [("dpo", PairObjective), ("spin", PairObjective), ("kto", JudgedObjective)]
)
def test_the_objective_fits_the_rows(name, kind):
    objective = METHODS[name].objective(PreferenceSettings(beta=0.3), temperature=0.7)
    assert isinstance(objective, kind)
    assert (objective.settings.beta, objective.temperature) == (0.3, 0.7)


def test_a_player_shows_games_only_where_demonstrations_are_wanted_and_not_given():
    taught = {name for name, method in METHODS.items() if method.is_taught("")}
    assert taught == {"sft", "spin"}
    assert not any(method.is_taught("data.jsonl") for method in METHODS.values())
