"""Episodes in a file, one line of JSON each."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from earl_envs.replays.episode import EpisodeRecord


def write_episodes(path: Path, episodes: Iterable[EpisodeRecord]) -> None:
    """Append episodes to a file, which is made if it is not there."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{episode.to_json()}\n" for episode in episodes)


def read_episodes(path: Path) -> Iterator[EpisodeRecord]:
    """Read a file that `write_episodes` wrote, one episode after the other.

    Raises:
        ValueError: If a line is no episode; the message names the file and the line.
    """
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                episode = EpisodeRecord.from_json(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number} of {str(path)!r} is no episode: {error}") from None
            yield episode
