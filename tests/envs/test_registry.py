"""Game ids: built in, registered, installed, unknown."""

import os
import subprocess
import sys
import textwrap

import pytest
from earl_envs import game_ids, make_game, register_game
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.registry import (
    FAMILIES,
    GAMES,
    REGISTERED_VARIABLE,
    GameRegistry,
    is_local_game,
)

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


def test_a_process_started_later_knows_what_was_registered_by_name(monkeypatch):
    monkeypatch.delenv(REGISTERED_VARIABLE, raising=False)
    parent = GameRegistry()
    parent.register("me/ByPath-v0", TIC_TAC_TOE)
    parent.register("me/Other-v0", TIC_TAC_TOE)
    parent.register("me/ByClass-v0", TicTacToe)
    child = GameRegistry()
    assert {"me/ByPath-v0", "me/Other-v0"} < set(child.ids())
    assert type(child.make("me/ByPath-v0")) is TicTacToe
    with pytest.raises(ValueError, match="unknown game 'me/ByClass-v0'"):
        child.make("me/ByClass-v0")
    assert [parent.is_local(f"me/{name}-v0") for name in ("ByClass", "ByPath", "No")] == [
        *(True, False, False)
    ]
    parent.forget("me/ByPath-v0")
    child.register("me/Own-v0", TIC_TAC_TOE)
    assert {"me/Own-v0", "me/Other-v0"} < set(GameRegistry().ids())


def test_a_process_registers_what_it_inherited_once_more(monkeypatch):
    # The module of a game may register it when it is imported, in every process anew.
    monkeypatch.setenv(REGISTERED_VARIABLE, "me/Heir-v0=no_such_module:Game")
    registry = GameRegistry()
    registry.register("me/Heir-v0", TicTacToe)
    assert type(registry.make("me/Heir-v0")) is TicTacToe
    with pytest.raises(ValueError, match="already taken"):
        registry.register("me/Heir-v0", TicTacToe)
    assert REGISTERED_VARIABLE not in os.environ, "a class is known to this process only"


@pytest.mark.parametrize("value", ["", ";", "me/X-v0", "x=a:B", "me/X-v0=a", "=;="])
def test_what_is_no_game_in_the_environment_is_left_out(monkeypatch, value):
    monkeypatch.setenv(REGISTERED_VARIABLE, value)
    assert not any(game_id.endswith("/X-v0") for game_id in GameRegistry().ids())


def test_games_of_packages_are_not_local():
    assert not is_local_game("earl/TicTacToe-v0")


SPAWN = """
import multiprocessing
import gymnasium
import earl_envs

def look(game_id):
    game = type(earl_envs.make_game(game_id)).__name__
    return game, gymnasium.make(game_id).reset(seed=0)[0].shape

if __name__ == "__main__":
    earl_envs.register_game("me/Far-v0", "earl_far_game:Far")
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as pool:
        print(pool.apply_async(look, ("me/Far-v0",)).get(timeout=60))
    for game_id in ("me/Far-v0", "me/Far-Text-v0"):
        options = {"context": "spawn", "shared_memory": False}
        envs = gymnasium.make_vec(game_id, 2, vectorization_mode="async", vector_kwargs=options)
        seen, _ = envs.reset(seed=0)
        print(len(seen))
        envs.close()
"""
RAY = """
import ray
import earl_envs

earl_envs.register_game("me/Far-v0", "earl_far_game:Far")
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)

@ray.remote
def look():
    import earl_envs
    batch = earl_envs.make_batch("me/Far-v0", batch_size=2, seed=0)
    batch.step([4, 4])
    return type(batch.game).__name__, batch.num_moves.tolist()

print(ray.get(look.remote(), timeout=90))
ray.shutdown()
"""


def _run_beside_a_game(tmp_path, script):
    """Run a script in a folder with a game that nothing installs; return its last lines."""
    (tmp_path / "earl_far_game.py").write_text(
        "from earl_envs.games.tic_tac_toe import TicTacToe\n\nclass Far(TicTacToe): pass\n"
    )
    (tmp_path / "script.py").write_text(script)
    ended = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=150
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.slow
def test_spawned_workers_find_a_game_registered_by_name(tmp_path):
    assert _run_beside_a_game(tmp_path, SPAWN) == ["('Far', (2, 3, 3))", "2", "2"]


@pytest.mark.slow
def test_ray_tasks_find_a_game_registered_by_name(tmp_path):
    pytest.importorskip("ray")
    assert _run_beside_a_game(tmp_path, RAY)[-1] == "('Far', [1, 1])"
