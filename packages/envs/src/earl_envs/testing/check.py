"""One question for anybody's game: is it fit for everything that is derived from its rules?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, final

from earl_envs.boundary import Failure, attempt
from earl_envs.checks import whole_number
from earl_envs.suggest import suggest
from earl_envs.testing import (
    batch,
    chat,
    faces,
    hidden_moves,
    information,
    moves_matter,
    policies,
    rules,
    seeding,
    strength,
    text,
    vector,
    worker,
)
from earl_envs.testing.citation import cite_rules
from earl_envs.testing.context import Check, Context, play_games, unplayed_context
from earl_envs.testing.finding import Finding

_RULES: Mapping[str, Check] = {
    "declaration": rules.declaration,
    "playthrough": rules.playthrough,
    "legal_actions": rules.legal_actions,
    "terminal_states": rules.terminal_states,
    "purity": rules.purity,
    "scores": rules.scores,
    "forfeits": rules.forfeits,
    "texts": information.texts,
}
CHECKS: Mapping[str, Check] = MappingProxyType({
    **_RULES,
    "seed_control": seeding.seed_control,
    "episode_determinism": seeding.episode_determinism,
    "episode_isolation": seeding.episode_isolation,
    "global_random_state": seeding.global_random_state,
    "clone": seeding.clone,
    "record": seeding.record,
    "planes": information.planes,
    "resample": information.resample,
    "hidden_moves": hidden_moves.hidden_moves,
    "move_round_trip": text.move_round_trip,
    "reply_table": text.reply_table,
    "illegal_policies": chat.illegal_policies,
    "canary_floor": chat.canary_floor,
    "reply_leak": chat.reply_leak,
    "end_reasons": chat.end_reasons,
    "chat_clone": chat.chat_clone,
    "prompt_growth": chat.prompt_growth,
    "batch_agreement": batch.batch_agreement,
    "batch_subsets": batch.batch_subsets,
    "batch_restart": batch.batch_restart,
    "gymnasium_env": faces.gymnasium_env,
    "gymnasium_text_env": faces.gymnasium_text_env,
    "gymnasium_vector": vector.gymnasium_vector,
    "gymnasium_text_vector": vector.gymnasium_text_vector,
    "gymnasium_policies": policies.gymnasium_policies,
    "opponent_failure": faces.opponent_failure,
    "pettingzoo_aec": faces.pettingzoo_aec,
    "pettingzoo_parallel": faces.pettingzoo_parallel,
    "moves_matter": moves_matter.moves_matter,
    "strong_beats_random": strength.strong_beats_random,
    "spawn_worker": worker.spawn_worker,
})
"""Every check by name, in the order they are run."""

_MAX_FINDINGS = 3  # of one check, each of another kind
_MAX_LOOKED_AT = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was checked of a game."""

    game_id: str
    """The game."""
    num_games: int
    """Random games that the checks looked at."""
    passed: tuple[str, ...]
    """Checks without a finding."""
    findings: Mapping[str, tuple[Finding, ...]]
    """What is wrong, by check: the first few findings of each, one of a kind."""
    skipped: tuple[str, ...]
    """Checks that were not run, as the rules they build on do not hold."""
    notes: Mapping[str, tuple[Finding, ...]]
    """What passed checks could not decide, by check."""

    def __str__(self) -> str:
        num_checks = len(self.passed) + len(self.findings)
        lines = [f"{self.game_id}: {len(self.passed)} of {num_checks} checks passed"]
        merged: dict[str, tuple[list[str], Finding]] = {}
        for name, findings in self.findings.items():
            for finding in findings:
                merged.setdefault(finding.kind, ([], finding))[0].append(name)
        lines += [f"  {', '.join(names)}: {finding}" for names, finding in merged.values()]
        lines += [f"  {name}: {note}" for name, notes in self.notes.items() for note in notes]
        if self.skipped:
            lines.append(f"  not run before the rules hold: {', '.join(self.skipped)}")
        return "\n".join(lines)


@final
class GameCheckError(AssertionError):
    """A game failed `check_game`; the message lists what is wrong and where.

    Attributes:
        report: The findings.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


def check_game(
    game_id: str,
    *,
    params: Mapping[str, Any] | None = None,
    num_games: int = 100,
    seed: int = 0,
    checks: Collection[str] | None = None,
) -> Report:
    """Check a game's rules and everything that is derived from them.

    The class attributes come first, then the rules; nothing that builds on what does not hold is
    run.

    Args:
        game_id: Built in, registered or installed.
        params: Keyword arguments of the game's class.
        num_games: Random games to look at.
        seed: Everything that is drawn derives from it.
        checks: Names from `CHECKS`, `declaration` and `playthrough` being always among them; all
            by default.

    Returns:
        The report of a game without findings.

    Raises:
        GameCheckError: If anything was found.
        ValueError: If there is no such game or check, the game cannot be made, or a number is not
            whole or too small.
    """
    chosen = _chosen(checks)
    num_games = whole_number(num_games, "num_games", least=1)
    context = unplayed_context(game_id, params or {}, seed=seed)
    if not find(context, rules.declaration):
        context = play_games(context, num_games)
    report = _run(context, {name: check for name, check in CHECKS.items() if name in chosen})
    if report.findings:
        raise GameCheckError(report)
    return report


def find(context: Context, check: Check) -> tuple[Finding, ...]:
    """Run one check; what the game raises in it is a finding too."""
    found: dict[str, Finding] = {}

    def look() -> None:
        # One by one: what was found before the check failed counts.
        for finding in islice(check(context), _MAX_LOOKED_AT):
            found.setdefault(finding.kind, finding)
            if len(found) == _MAX_FINDINGS:
                return

    failure = attempt(look)
    if isinstance(failure, Failure):
        raised = Finding(wrong=failure.error)
        found.setdefault(raised.kind, raised)
    return tuple(replace(f, wrong=cite_rules(context.game, f.wrong)) for f in found.values())


def _chosen(checks: Collection[str] | None) -> Collection[str]:
    if checks is None:
        return CHECKS.keys()
    if isinstance(checks, str):
        raise ValueError(f"checks must be a list of names, got {checks!r}")  # noqa: TRY004
    for name in checks:
        if name not in CHECKS:
            raise ValueError(suggest(str(name), CHECKS, what="check"))
    return {"declaration", "playthrough", *checks}


def _run(context: Context, checks: Mapping[str, Check]) -> Report:
    findings: dict[str, tuple[Finding, ...]] = {}
    notes: dict[str, tuple[Finding, ...]] = {}
    passed: list[str] = []
    skipped: list[str] = []
    for name, check in checks.items():
        needed = _RULES if name not in _RULES else {"declaration"}
        if any(base in findings for base in needed):
            skipped.append(name)
            continue
        found = find(context, check)
        if noted := tuple(finding for finding in found if finding.is_note):
            notes[name] = noted
        if faults := tuple(finding for finding in found if not finding.is_note):
            findings[name] = faults
        else:
            passed.append(name)
    return Report(
        game_id=context.game_id,
        num_games=len(context.plays),
        passed=tuple(passed),
        findings=findings,
        skipped=tuple(skipped),
        notes=notes,
    )
