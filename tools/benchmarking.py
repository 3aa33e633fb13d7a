"""What all measuring scripts share: figures with goals, the machine, and the stored file."""

import json
import operator
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
STORE = ROOT / "docs" / "benchmarks"
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
_PACKAGES = ("torch", "transformers", "numpy")


def holds(value: float, goal: str) -> bool:
    """Compare a value with a goal such as `>= 0.58`; an empty goal only reports and always holds.

    Raises:
        ValueError: If the goal is not an operator and a number.
    """
    if not goal:
        return True
    parts = re.fullmatch(r"(<=|>=|<|>|==) (-?[0-9.e+-]+)", goal)
    if parts is None:
        raise ValueError(f"a goal is an operator and a number such as '<= 300', got {goal!r}")
    return _OPERATORS[parts[1]](value, float(parts[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number and what it has to reach."""

    value: float
    unit: str
    goal: str

    def to_dict(self) -> dict[str, float | str | bool]:
        """Return the figure as it is stored."""
        return {
            "value": self.value,
            "unit": self.unit,
            "goal": self.goal,
            "holds": holds(self.value, self.goal),
        }


def environment() -> dict[str, str | int]:
    """Describe the machine and the versions that were measured."""
    return {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": psutil.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
        **{name: version(name) for name in _PACKAGES},
    }


def report(
    figures: Mapping[str, Figure], rows: Sequence[Mapping[str, object]], *, target: Path
) -> None:
    """Print the figures as a table and store everything as JSON."""
    width = max(map(len, figures))
    for name, values in figures.items():
        figure = values.to_dict()
        verdict = "holds" if figure["holds"] else "MISSED"
        print(f"{name:{width}}  {figure['value']:>14,.4f} {figure['unit']:<12} "
              f"{figure['goal']:<10} {verdict}")  # fmt: skip
    store(figures, rows, target=target)
    print(f"stored in {target}")


def store(
    figures: Mapping[str, Figure], rows: Sequence[Mapping[str, object]], *, target: Path
) -> None:
    """Store figures, machine and rows as JSON."""
    content = {
        "figures": {name: figure.to_dict() for name, figure in figures.items()},
        "environment": environment(),
        "rows": list(rows),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, indent=1) + "\n")
