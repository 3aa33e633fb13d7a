"""Everything that a run writes down, in one place to tell it to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

from earl_trainer.evaluation.checkup import Checkup
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.console import Display, SilentDisplay
from earl_trainer.tracking.episode_rows import episode_row
from earl_trainer.tracking.metrics import StepRecord
from earl_trainer.tracking.sinks import JsonLines, MetricsFile, Sink
from earl_trainer.types import EpisodeSummary


@final
class Tracker:
    """Hands every record to every sink; the display is one that also hears of stages and notes."""

    def __init__(
        self,
        display: Display,
        sinks: Sequence[Sink],
        *,
        metrics: JsonLines,
        episodes: JsonLines,
        game_id: str,
    ) -> None:
        self._game_id = game_id
        self.display = display
        self._sinks: Sequence[Sink] = (display, MetricsFile(metrics), *sinks)
        self._files = {"metrics": metrics, "episodes": episodes}
        self._episodes = episodes

    def log_step(self, record: StepRecord) -> None:
        """Record a finished step."""
        for sink in self._sinks:
            sink.log_step(record)

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Record a match played before step `step`."""
        for sink in self._sinks:
            sink.log_evaluation(name, step, result)

    def log_episodes(
        self,
        phase: str,
        step: int,
        episodes: Sequence[EpisodeSummary],
        rewards: Sequence[float | None],
    ) -> None:
        """Record every episode: what was said, how it ended and why."""
        for episode, reward in zip(episodes, rewards, strict=True):
            row = episode_row(self._game_id, episode, reward)
            self._episodes.write({"step": step, "phase": phase, **row})

    def log_checkup(self, checkup: Checkup) -> None:
        """Record what a checkup found."""
        for sink in self._sinks:
            sink.log_checkup(checkup)

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Record what the finished run came to, and its picture."""
        for sink in self._sinks:
            sink.log_results(results, picture)

    def positions(self) -> dict[str, int]:
        """Return the bytes written to each file, for a checkpoint."""
        return {name: file.num_bytes for name, file in self._files.items()}

    def rewind(self, positions: Mapping[str, int]) -> None:
        """Cut each file to what it held at a checkpoint."""
        for name, file in self._files.items():
            file.rewind(positions[name])

    def close(self) -> None:
        """Close every sink, the display last."""
        self._episodes.close()
        for sink in reversed(self._sinks):
            sink.close()


@final
class SilentTracker:
    """The tracker of a worker that keeps no records."""

    def __init__(self) -> None:
        self.display: Display = SilentDisplay()

    def log_step(self, record: StepRecord) -> None:
        """Leave it to the first worker."""

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Leave it to the first worker."""

    def log_episodes(
        self,
        phase: str,
        step: int,
        episodes: Sequence[EpisodeSummary],
        rewards: Sequence[float | None],
    ) -> None:
        """Leave it to the first worker."""

    def log_checkup(self, checkup: Checkup) -> None:
        """Leave it to the first worker."""

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Leave it to the first worker."""

    def positions(self) -> dict[str, int]:
        """Return nothing: there are no files."""
        return {}

    def rewind(self, positions: Mapping[str, int]) -> None:
        """Leave it to the first worker."""

    def close(self) -> None:
        """Close nothing."""
