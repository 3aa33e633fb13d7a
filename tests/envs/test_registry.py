"""Game ids: built in, registered, installed, unknown."""

import subprocess
import sys
import textwrap

import pytest
from earl_envs import game_ids, make_game, register_game
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.registry import FAMILIES, GAMES, GameRegistry

TIC_TAC_TOE = "earl_envs.games.tic_tac_toe:TicTacToe"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package with one game on the path, as an installer would."""

    def add(package, *, game_id, entry="{package}:Tiny"):
        (tmp_path / f"{package}.py").write_text(
            textwrap.dedent("""
                from earl_envs.games.tic_tac_toe import TicTacToe
                Tiny = TicTacToe
                NOT_A_GAME = 3
            """)
        )
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        target = entry.format(package=package)
        (info / "entry_points.txt").write_text(f"[earl_envs.games]\n{game_id} = {target}\n")
        monkeypatch.delitem(sys.modules, package, raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    return add


def test_every_built_in_game_is_made():
    assert game_ids() == sorted(game_ids())
    assert set(GAMES) <= set(game_ids())  # others may be registered in the same process
    for game_id, entry in GAMES.items():
        assert entry.endswith(f":{type(make_game(game_id)).__name__}")


def test_unknown_id_is_refused_in_one_line_with_the_nearest():
    with pytest.raises(ValueError, match=r"did you mean 'earl/TicTacToe-v0'\?") as caught:
        make_game("earl/TicTacTo-v0")
    assert "\n" not in str(caught.value)


def test_registered_games_are_made_from_class_or_path():
    registry = GameRegistry()
    registry.register("me/ByClass-v0", TicTacToe)
    registry.register("me/ByPath-v0", TIC_TAC_TOE)
    assert type(registry.make("me/ByClass-v0")) is TicTacToe
    assert type(registry.make("me/ByPath-v0")) is TicTacToe
    assert {"me/ByClass-v0", "me/ByPath-v0"} < set(registry.ids())


def test_duplicate_ids_are_refused_wherever_the_first_came_from(install):
    install("earl_fake_taken", game_id="fake/Taken-v0")
    registry = GameRegistry()
    registry.register("me/Mine-v0", TicTacToe)
    for game_id in ("me/Mine-v0", "fake/Taken-v0", "earl/TicTacToe-v0"):
        with pytest.raises(ValueError, match=f"'{game_id}' is already taken by"):
            registry.register(game_id, TicTacToe)


def test_module_functions_share_one_registry():
    with pytest.raises(ValueError, match=f"already taken by '{TIC_TAC_TOE}'"):
        register_game("earl/TicTacToe-v0", TicTacToe)


@pytest.mark.parametrize("game_id", ["", "TicTacToe", "me/TicTacToe", "a/b/C-v0", "me/X-v0\n"])
def test_malformed_id_is_refused(game_id):
    with pytest.raises(ValueError, match="a game id looks like"):
        GameRegistry().register(game_id, TicTacToe)


def test_malformed_entry_is_refused():
    with pytest.raises(ValueError, match=r"looks like 'module:Class', got 'my_pkg\.Mine'"):
        GameRegistry().register("me/Mine-v0", "my_pkg.Mine")


def test_game_of_an_installed_package_is_found_by_entry_point(install):
    install("earl_fake_game", game_id="fake/Tiny-v0")
    registry = GameRegistry()
    assert "fake/Tiny-v0" in registry.ids()
    assert "earl_fake_game" not in sys.modules
    assert type(registry.make("fake/Tiny-v0")) is TicTacToe


def test_id_claimed_by_two_packages_is_the_only_one_unusable(install):
    install("earl_fake_one", game_id="fake/Both-v0")
    install("earl_fake_two", game_id="fake/Both-v0")
    registry = GameRegistry()
    with pytest.raises(ValueError, match=r"claimed more than once: earl_fake_\w+:Tiny, earl_fake_"):
        registry.make("fake/Both-v0")
    assert type(registry.make("earl/TicTacToe-v0")) is TicTacToe


def test_installed_package_cannot_replace_a_built_in_game(install):
    install("earl_fake_thief", game_id="earl/TicTacToe-v0")
    with pytest.raises(ValueError, match="claimed more than once"):
        GameRegistry().make("earl/TicTacToe-v0")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("earl_no_such_module:Game", "cannot be loaded from 'earl_no_such_module:Game'"),
        ("{package}:Missing", "cannot be loaded from 'earl_fake_broken:Missing'"),
        ("{package}:NOT_A_GAME", "must be a subclass of Game, got 3"),
    ],
)
def test_entry_that_leads_nowhere_is_refused(install, entry, message):
    install("earl_fake_broken", game_id="fake/Broken-v0", entry=entry)
    with pytest.raises(ValueError, match=message):
        GameRegistry().make("fake/Broken-v0")


def test_ids_of_a_family_are_listed_only_when_asked():
    pytest.importorskip("pyspiel")
    assert "openspiel/kuhn_poker-v0" in game_ids("openspiel")
    assert not any(game_id.startswith("openspiel/") for game_id in game_ids())
    with pytest.raises(ValueError, match="did you mean 'openspiel'"):
        game_ids("openspeil")


def test_games_of_a_family_are_made_with_their_parameters():
    pytest.importorskip("pyspiel")
    assert make_game("openspiel/kuhn_poker-v0", players=3).num_seats == 3
    with pytest.raises(ValueError, match="did you mean 'kuhn_poker'"):
        make_game("openspiel/kuhn_pocker-v0")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_without_its_library_names_the_extra(family, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("earl_envs.adapters.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, {"openspiel": "pyspiel"}.get(family, family), None)
    for ask in (lambda: game_ids(family), lambda: make_game(f"{family}/any-v0")):
        with pytest.raises(ValueError, match=rf"pip install earl-envs\[{family}\]"):
            ask()


def test_an_id_of_a_family_is_taken(install):
    install("earl_fake_spiel", game_id="openspiel/kuhn_poker-v0")
    with pytest.raises(ValueError, match=r"is already taken by 'earl_envs\.adapters\.openspiel'"):
        GameRegistry().register("openspiel/mine-v0", TicTacToe)
    with pytest.raises(ValueError, match="claimed more than once"):
        GameRegistry().make("openspiel/kuhn_poker-v0")


def test_a_registered_game_is_known_to_the_frameworks():
    gymnasium = pytest.importorskip("gymnasium")
    register_game("registry-test/Framed-v0", TicTacToe)
    assert "registry-test/Framed-v0" in gymnasium.registry


@pytest.mark.parametrize(
    ("game_id", "first"),
    [("registry-test/Game-v0", "Game-v0"), ("registry-test/Text-v0", "Text-Text-v0")],
)
def test_a_game_that_gymnasium_refuses_is_registered_nowhere(game_id, first):
    gymnasium = pytest.importorskip("gymnasium")
    taken = f"registry-test/{first}"
    gymnasium.register(taken, "somebody.else:Env")
    before = dict(gymnasium.registry)
    try:
        with pytest.raises(ValueError, match=f"{game_id!r} cannot be registered: .*{taken!r}"):
            register_game(game_id, TicTacToe)
        assert dict(gymnasium.registry) == before
        assert game_id not in game_ids()
    finally:
        del gymnasium.registry[taken]
    register_game(game_id, TicTacToe)
    assert game_id in game_ids()
    assert game_id in gymnasium.registry


def test_what_is_no_game_or_no_id_is_refused():
    # In a process of its own, where no type checker of the test run comes first.
    code = """
import earl_envs
from earl_envs.games.tic_tac_toe import TicTacToe

def refusal(function, *args):
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    raise AssertionError(args)

for entry in (5, None, int, TicTacToe(), lambda: TicTacToe()):
    message = refusal(earl_envs.register_game, "me/Mine-v0", entry)
    assert message.startswith("the entry of 'me/Mine-v0' is a subclass of Game"), message
    assert message.endswith(f"got {entry!r}"), message
for game_id in (5, None, ["me/Mine-v0"], b"me/Mine-v0"):
    for call in (earl_envs.make_game, lambda name: earl_envs.register_game(name, TicTacToe)):
        message = refusal(call, game_id)
        assert message == f"a game id is a string like 'me/MyGame-v0', got {game_id!r}", message
assert "me/Mine-v0" not in earl_envs.game_ids()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
