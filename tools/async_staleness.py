"""How old the tokens are that are trained on, and which, where some episodes take 60 times as long.

    python tools/bench_async.py --only staleness [--quick --out FILE]

The runs are those of `staleness_runs.py`. At every turn of them the ledger's counts are compared
with an account of what workers were given and gave back. Submitted and consumed are counted over
groups whose fate is decided, trained on or dropped: what is running or waiting when a run ends, and
what failed, is neither.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, filterfalse, islice
from statistics import fmean, median

from bench_section import Row, Section
from benchmarking import Figure
from earl_trainer.asynchronous.admission import Bound
from local_workers import Told
from staleness_runs import Story, Variant, episodes_of, is_slow, play, play_alone

BINS_TOKENS = (4, 8, 16, 32, 64, 128, 256, 512)
"""Most tokens of an episode in each bin; the last has those that are longer too."""
STRICT = tuple(
    Variant(label=f"strict_eta_{eta}", bound=Bound.STRICT, eta=eta) for eta in (2, 0, 1, 4)
)
PACE = Variant(label="pace")
DISCARD = Variant(label="discard", discard=True)
LOST = Variant(label="lost_worker", num_workers=2)
RESUMED = Variant(label="resumed")
JUDGED = (STRICT[0].label, PACE.label, DISCARD.label)
"""Of which lengths are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    num_batches: int
    """With eta 2 where stragglers are waited for; half as many otherwise."""
    num_ahead_batches: int
    """Where they are not, so that several come to their end."""
    num_alone: int
    """Slow groups that are timed by themselves, and a multiple of it that are not slow."""
    batch_groups: int
    num_games: int


FULL = Size(num_batches=40, num_ahead_batches=100, num_alone=5, batch_groups=16, num_games=60)
QUICK = Size(num_batches=6, num_ahead_batches=10, num_alone=1, batch_groups=4, num_games=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Episodes by their tokens."""

    slow_share: float
    mean_tokens: float
    histogram: Sequence[int]
    """How many are in each of `BINS_TOKENS`."""


def lengths_of(story: Story, groups: Iterable[int]) -> Lengths:
    """Look at the episodes of groups that came back."""
    slow: list[bool] = []
    tokens: list[int] = []
    for group in groups:
        slow += map(is_slow, episodes_of(group))
        tokens += story.told[group].emitted_tokens
    histogram = [0] * len(BINS_TOKENS)
    for length in tokens:
        histogram[min(bisect_left(BINS_TOKENS, length), len(BINS_TOKENS) - 1)] += 1
    return Lengths(slow_share=fmean(slow), mean_tokens=fmean(tokens), histogram=histogram)


def has_slow(group: int) -> bool:
    """Whether one of a group's episodes is slow."""
    return any(map(is_slow, episodes_of(group)))


def describe(story: Story) -> Row:
    """Write down a run."""
    under_way = story.kept["again"]
    took_s: dict[bool, list[float]] = {True: [], False: []}
    for group, told in story.told.items():
        took_s[has_slow(group)].append(told.took_s)
    return {
        "variant": story.variant.label,
        "eta": story.variant.eta,
        "batches": len(story.consumed) // story.variant.batch_groups,
        "seconds": story.seconds,
        "tokens_by_staleness": {str(age): story.ages[age] for age in sorted(story.ages)},
        "ticks": story.num_ticks,
        "ticks_out_of_balance": story.num_out_of_balance,
        "groups_started": story.kept["first"],
        "groups_consumed": len(story.consumed),
        "groups_dropped": story.num_dropped,
        "groups_under_way": len(under_way),
        "slow_groups_started": sum(map(has_slow, range(story.kept["first"]))),
        "slow_groups_consumed": sum(map(has_slow, story.consumed)),
        "slow_groups_under_way": sum(map(has_slow, under_way)),
        "slow_group_s": median(took_s[True]) if took_s[True] else None,
        "other_group_s": median(took_s[False]),
    }


def describe_lengths(story: Story) -> Row:
    """Write down the lengths of what was submitted and of what was consumed."""
    return {
        "variant": story.variant.label,
        "length_bins": list(BINS_TOKENS),
        "submitted": list(lengths_of(story, story.decided).histogram),
        "consumed": list(lengths_of(story, story.consumed).histogram),
    }


def staleness_figures(story: Story) -> dict[str, Figure]:
    """Return how old the tokens of a run were, and how long its batches took."""
    variant, ages = story.variant, story.ages
    bounded = variant.bound is Bound.STRICT or variant.discard
    num_tokens, num_batches = ages.total(), len(story.consumed) // variant.batch_groups
    older = sum(number for age, number in ages.items() if age > variant.eta)
    return {
        "max_staleness": Figure(
            value=max(ages), unit="versions", goal=f"<= {variant.eta}" if bounded else ""
        ),
        "mean_staleness": Figure(
            value=sum(age * number for age, number in ages.items()) / num_tokens,
            unit="versions",
            goal="",
        ),
        "older_than_eta": Figure(value=older / num_tokens, unit="of tokens", goal=""),
        "batch": Figure(value=story.seconds / num_batches, unit="s", goal=""),
    }


def length_figures(story: Story) -> dict[str, Figure]:
    """Return which share of the episodes is slow, and their mean length, before and after."""
    figures: dict[str, Figure] = {}
    for name, groups in (("submitted", story.decided), ("consumed", story.consumed)):
        lengths = lengths_of(story, groups)
        figures[f"slow_share_{name}"] = Figure(value=lengths.slow_share, unit="share", goal="")
        figures[f"mean_tokens_{name}"] = Figure(value=lengths.mean_tokens, unit="tokens", goal="")
    under_way = [is_slow(each) for group in story.kept["again"] for each in episodes_of(group)]
    figures["slow_share_under_way"] = Figure(value=fmean(under_way), unit="share", goal="")
    return figures


def recovery_figures(story: Story) -> dict[str, Figure]:
    """Return what became of the groups that were under way, and of their room."""
    room = story.room_after_recovery
    assert room is not None
    return {
        "groups_again": Figure(value=story.num_again, unit="groups", goal="> 0"),
        "room_not_restored": Figure(value=room, unit="groups", goal="== 0"),
    }


def balance_figures(stories: Sequence[Story]) -> dict[str, Figure]:
    """Return over all runs whether a group was miscounted, lost or trained on twice."""

    def total(values: Iterable[int], unit: str, goal: str) -> Figure:
        return Figure(value=sum(values), unit=unit, goal=goal)

    return {
        "ticks": total((each.num_ticks for each in stories), "ticks", ""),
        "ticks_out_of_balance": total(
            (each.num_out_of_balance for each in stories), "ticks", "== 0"
        ),
        "groups_lost": total((abs(each.num_lost) for each in stories), "groups", "== 0"),
        "groups_consumed_twice": total((each.num_twice for each in stories), "groups", "== 0"),
    }


def slowness_figures(alone: Mapping[int, Told]) -> dict[str, Figure]:
    """Compare groups with a slow episode with others, each alone on a worker."""
    tokens: dict[bool, list[int]] = {True: [], False: []}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for group, told in alone.items():
        seconds[has_slow(group)].append(told.took_s)
        for episode, emitted in zip(episodes_of(group), told.emitted_tokens, strict=True):
            tokens[is_slow(episode)].append(emitted)
    return {
        "slow_over_fast_tokens": Figure(
            value=fmean(tokens[True]) / fmean(tokens[False]), unit="times", goal=""
        ),
        "slow_over_fast_alone": Figure(
            value=median(seconds[True]) / median(seconds[False]), unit="times", goal=""
        ),
    }


def run_variants(size: Size) -> dict[str, Story]:
    """Make all runs."""
    stories: dict[str, Story] = {}

    def begin(variant: Variant) -> Story:
        print(variant.label, flush=True)
        sized = replace(variant, batch_groups=size.batch_groups, num_games=size.num_games)
        stories[variant.label] = Story(variant=sized)
        return stories[variant.label]

    for variant in STRICT:
        share = 1 if variant.label in JUDGED else 2
        play(begin(variant), range(size.num_batches // share))
    for variant in (PACE, DISCARD):
        play(begin(variant), range(size.num_ahead_batches))
    half, whole = size.num_batches // 2, size.num_batches
    play(begin(LOST), range(whole), lose_at=half)
    play(begin(RESUMED), range(half))
    play(stories[RESUMED.label], range(half, whole))
    return stories


def measure(quick: bool) -> Section:
    """Make all runs and time groups alone."""
    size = QUICK if quick else FULL
    slow = list(islice(filter(has_slow, count()), size.num_alone))
    others = list(islice(filterfalse(has_slow, count()), 20 * size.num_alone))
    # The first is no measurement.
    alone = play_alone([*others[-1:], *others, *slow], num_games=size.num_games)
    stories = run_variants(size)
    figures = {**slowness_figures(alone), **balance_figures(list(stories.values()))}
    for label, story in stories.items():
        found = staleness_figures(story)
        if label in JUDGED:
            found |= length_figures(story)
        if story.num_again:
            found |= recovery_figures(story)
        figures |= {f"{label}_{name}": figure for name, figure in found.items()}
    rows = [describe(story) for story in stories.values()]
    rows += [describe_lengths(stories[label]) for label in JUDGED]
    return Section(figures=figures, rows=rows)
