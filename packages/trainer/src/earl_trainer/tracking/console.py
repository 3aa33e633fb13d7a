"""What a person watching sees: a live table in a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from earl_trainer.evaluation.checkup import Checkup
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.metrics import StepRecord

_SHOWN_STEPS = 12
_TP = "tp"
_MATCH = "match"
_COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("reward", "reward", "reward/mean", "{:+.2f}"),
    ("win", "win", "game/win_rate", "{:.0%}"),
    ("draw", "draw", "game/draw_rate", "{:.0%}"),
    ("loss", "loss", "game/loss_rate", "{:.0%}"),
    ("illegal", "ill", "game/illegal_rate", "{:.1%}"),
    ("ctx mean", "ctx", "context/mean_tokens", "{:.0f}"),
    ("ctx max", "max", "context/max_tokens", "{:.0f}"),
    ("resident", "in use", "context/resident_tokens", "{:,.0f}"),
    ("cut", "cut", "context/truncated_share", "{:.0%}"),
    (_TP, "tp", "selector/tp", "{:.0f}"),
    ("kl", "kl", "policy/kl", "{:.4f}"),
    ("clip", "clip", "policy/clip_fraction", "{:.1%}"),
    ("grad", "grad", "policy/grad_norm", "{:.2f}"),
)
"""Title, a title for a table of 80 characters, figure, and how it is written."""
_STAGES = ("rollout", "prepare", "update")


@runtime_checkable
class Display(Protocol):
    """Shows a run to whoever watches it; a sink that also hears of stages and notes."""

    def log_step(self, record: StepRecord) -> None:
        """Show a finished step."""
        ...

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Show the result of a match."""
        ...

    def log_checkup(self, checkup: Checkup) -> None:
        """Show what a checkup found."""
        ...

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Take what the finished run came to."""
        ...

    def stage(self, name: str, detail: str = "") -> None:
        """Say what is going on inside a step."""
        ...

    def note(self, text: str) -> None:
        """Say something once."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def make_display(phase_steps: Mapping[str, int], *, first_step: int, num_matches: int) -> Display:
    """Return the live display in a terminal, and plain lines when the output is something else.

    Args:
        phase_steps: Steps of each phase, in order.
        first_step: Steps that were done before, in an earlier process.
        num_matches: Matches that are still to be played.
    """
    console = Console()
    clock = EtaClock(phase_steps, num_matches=num_matches)
    if console.is_terminal:
        return LiveDisplay(console, phase_steps, clock, first_step=first_step)
    return LineDisplay(Console(width=240, soft_wrap=True, highlight=False), clock)


@final
class EtaClock:
    """Time left, from the recent steps of the phase and from the last match.

    Args:
        phase_steps: Steps of each phase, in order.
        num_matches: Matches that are still to be played.
    """

    def __init__(self, phase_steps: Mapping[str, int], *, num_matches: int = 0) -> None:
        self._ends = dict(zip(phase_steps, accumulate(phase_steps.values()), strict=True))
        self._num_matches = num_matches
        self._recent_s: deque[float] = deque(maxlen=10)
        self._match_s = 0.0
        self._match_began_s: float | None = None
        self._phase = ""

    def hear_of(self, stage: str) -> None:
        """Take note of what is going on: a match is timed from the first that is heard of it."""
        if stage == _MATCH and self._match_began_s is None:
            self._match_began_s = time.perf_counter()

    def end_match(self) -> None:
        """Take note of a finished match; one that was not heard of before took no time."""
        self._num_matches = max(0, self._num_matches - 1)
        if self._match_began_s is not None:
            self._match_s = time.perf_counter() - self._match_began_s
            self._match_began_s = None

    def tick(self, record: StepRecord) -> str:
        """Take note of a finished step; return the time left, and the phases that it leaves out.

        How long the steps of a later phase take is not known before it begins.
        """
        if record.phase != self._phase:
            self._phase = record.phase
            self._recent_s.clear()
        self._recent_s.append(record.metrics["time/step_s"])
        end = self._ends[record.phase]
        pace_s = sum(self._recent_s) / len(self._recent_s)
        left_s = (end - record.step - 1) * pace_s + self._num_matches * self._match_s
        later = [phase for phase, last in self._ends.items() if last > end]
        return " + ".join((format_duration(left_s), *later))


def format_duration(seconds: float) -> str:
    """Write seconds as `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def describe_match(name: str, result: MatchResult) -> str:
    """Put a match into one line."""
    return (
        f"evaluation {name}: {result.win_rate:.1%} won "
        f"[{result.win_rate_low:.1%}, {result.win_rate_high:.1%}], {result.draw_rate:.1%} drawn, "
        f"{result.loss_rate:.1%} lost of {result.games} games; "
        f"{result.illegal_rate:.1%} of replies illegal"
    )


def describe_rates(record: StepRecord) -> str:
    """List tokens per second of each stage."""
    rates = ((stage, record.metrics.get(f"rate/{stage}_tokens_per_s")) for stage in _STAGES)
    return ", ".join(f"{stage} {rate:,.0f}" for stage, rate in rates if rate is not None)


def describe_age(record: StepRecord) -> str | None:
    """Say how old the tokens are, and what has been played ahead; None where nothing is."""
    metrics = record.metrics
    if "async/queued_groups" not in metrics:
        return None
    age = (metrics.get(f"staleness/{name}", 0.0) for name in ("mean", "max"))
    return (
        "updates behind: {:.1f}, at most {:.0f}".format(*age)
        + f"; {metrics['async/running_groups']:.0f} groups running"
        + f", {metrics['async/queued_groups']:.0f} waiting"
    )


def _cells(record: StepRecord) -> list[tuple[str, str]]:
    return [
        (title, template.format(record.metrics[key]) if key in record.metrics else "-")
        for title, _, key, template in _COLUMNS
    ]


@final
class LineDisplay:
    """One line per step, for logs and pipes."""

    def __init__(self, console: Console, clock: EtaClock) -> None:
        self._console = console
        self._clock = clock

    def log_step(self, record: StepRecord) -> None:
        """Print the step's figures in one line."""
        eta = self._clock.tick(record)
        why = "; ".join(filter(None, (record.decision, record.limit_notice)))
        figures = " | ".join(
            f"{title} {value}" + (f" ({why})" if title == _TP else "")
            for title, value in _cells(record)
        )
        rates = f"tok/s {describe_rates(record)}"
        parts = (f"{record.phase} {record.step + 1}", figures, rates, describe_age(record))
        line = " | ".join([*filter(None, parts), f"eta {eta}"])
        self._console.print(line, markup=False)

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Print the match in one line."""
        self._clock.end_match()
        self.note(describe_match(name, result))

    def log_checkup(self, checkup: Checkup) -> None:
        """Print the checkup in one line."""
        self.note(checkup.describe())

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Show nothing: whoever ends the run says it in a line."""

    def stage(self, name: str, detail: str = "") -> None:
        """Stay silent: a log has no use for what is about to change."""
        self._clock.hear_of(name)

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

    def close(self) -> None:
        """Nothing is held open."""


@final
class LiveDisplay:
    """A table of the latest steps over progress bars, redrawn in place; notes scroll above it."""

    def __init__(
        self,
        console: Console,
        phase_steps: Mapping[str, int],
        clock: EtaClock,
        *,
        first_step: int,
    ) -> None:
        self._clock = clock
        self._records: deque[StepRecord] = deque(maxlen=_SHOWN_STEPS)
        self._eta = "..."
        self._stage = Text("starting", style="dim")
        self._progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            console=console,
        )
        self._tasks = {}
        self._first_steps = dict(phase_steps)
        begins = 0
        for phase, num_steps in phase_steps.items():
            done = max(0, min(first_step - begins, num_steps))
            self._tasks[phase] = self._progress.add_task(phase, total=num_steps, completed=done)
            self._first_steps[phase], begins = begins, begins + num_steps
        self._live = Live(self._render(), console=console, refresh_per_second=4)
        self._live.start()

    def log_step(self, record: StepRecord) -> None:
        """Add the step to the table and move its bar."""
        self._eta = self._clock.tick(record)
        self._records.append(record)
        # Not one more: a run may have been sent back.
        done = record.step + 1 - self._first_steps[record.phase]
        self._progress.update(self._tasks[record.phase], completed=done)
        self._live.update(self._render())

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Leave the match standing above the table."""
        self._clock.end_match()
        self.note(describe_match(name, result))

    def log_checkup(self, checkup: Checkup) -> None:
        """Leave the checkup standing above the table."""
        self.note(checkup.describe())

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Show nothing: whoever ends the run says it in a line."""

    def stage(self, name: str, detail: str = "") -> None:
        """Show what is going on under the bars."""
        self._clock.hear_of(name)
        self._stage = Text(f"{name} {detail}".strip(), style="dim")
        self._live.update(self._render())

    def note(self, text: str) -> None:
        """Print a line above the table."""
        self._live.console.print(text, markup=False)

    def close(self) -> None:
        """Stop redrawing and leave the last picture."""
        self._stage = Text("")
        self._live.update(self._render())
        self._live.stop()

    def _render(self) -> Group:
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("step", justify="right")
        for _, short_title, _, _ in _COLUMNS:
            table.add_column(short_title, justify="right", no_wrap=True)
        for record in self._records:
            # Which phase it is, the bars below tell.
            table.add_row(str(record.step + 1), *(value for _, value in _cells(record)))
        lines: list[Text] = []
        if self._records:
            latest = self._records[-1]
            lines.append(Text(f"tp {latest.metrics['selector/tp']:.0f}: {latest.decision}"))
            if latest.limit_notice is not None:
                lines.append(Text(latest.limit_notice, style="bold"))
            lines.append(Text(f"tokens/s: {describe_rates(latest)}"))
            age = describe_age(latest)
            if age is not None:
                lines.append(Text(age))
        lines.append(Text(f"eta {self._eta}"))
        return Group(table, *lines, self._progress, self._stage)


@final
class SilentDisplay:
    """Shows nothing."""

    def log_step(self, record: StepRecord) -> None:
        """Show nothing."""

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Show nothing."""

    def log_checkup(self, checkup: Checkup) -> None:
        """Show nothing."""

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Show nothing: whoever ends the run says it in a line."""

    def stage(self, name: str, detail: str = "") -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Leave the terminal alone."""
