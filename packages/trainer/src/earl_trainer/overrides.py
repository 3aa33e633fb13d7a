"""From recipe, YAML file and command line to a RunConfig; what is wrong is said in one line."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeGuard

import yaml
from pydantic import TypeAdapter, ValidationError

from earl_trainer.config import RunConfig

Tree = dict[str, Any]  # Any: values of every field type, not validated yet
_ADAPTER = TypeAdapter(RunConfig)
_GROUP_KEY = "name"
_CUT_VOCABULARY = frozenset({"top_p", "top_k", "min_p"})
CONFIG_FILE = "config.yaml"
"""The resolved config in a run folder."""


def to_tree(config: RunConfig) -> Tree:
    """Return a config as nested plain values, ready for YAML or JSON."""
    return _ADAPTER.dump_python(config, mode="json")


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Turn nested values into one level of dotted names."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        inner = flatten(value) if _is_tree(value) else {"": value}
        flat |= {f"{key}.{name}" if name else key: leaf for name, leaf in inner.items()}
    return flat


def parse_flags(arguments: Sequence[str]) -> Tree:
    """Read `--group.field value` and `--group.field=value` into nested values.

    Raises:
        ValueError: If an argument is no flag or a flag has no value.
    """
    tree: Tree = {}
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("--"):
            raise ValueError(f"expected a --field, got {argument!r}")
        name, equals, text = argument[2:].partition("=")
        if not equals:
            value = next(remaining, None)
            if value is None:
                raise ValueError(f"--{name} needs a value")
            text = value
        _insert(tree, name.replace("-", "_").split("."), text)
    return tree


def read_yaml(path: Path) -> Tree:
    """Read nested values from a YAML file.

    Raises:
        ValueError: If the file cannot be read or holds no mapping.
    """
    try:
        # Scalars and keys stay text, as on the command line; the fields know their types.
        content = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"cannot read the config {str(path)!r}: {_flat(str(error))}") from error
    if not _is_tree(content):
        raise ValueError(f"the config {str(path)!r} must hold `field: value` lines")
    return content


def read_run_config(folder: Path) -> RunConfig:
    """Read the resolved config of a run folder.

    Raises:
        ValueError: If the folder holds no run.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{str(folder)!r} is no run folder: it holds no {CONFIG_FILE}")
    return resolve(RunConfig(), read_yaml(path))


def write_run_config(config: RunConfig, folder: Path) -> None:
    """Write a config into its run folder, from where `read_run_config` reads it.

    Raises:
        ValueError: If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG_FILE).write_text(yaml.safe_dump(to_tree(config), sort_keys=False))
    except OSError as error:
        raise ValueError(f"cannot write the run folder {str(folder)!r}: {error}") from error


def resolve(base: RunConfig, *overrides: Tree) -> RunConfig:
    """Lay nested values over a config, later ones over earlier ones, and validate the result.

    A plain value for a group sets its `name`: `--model DIR` is `--model.name DIR`.

    Raises:
        ValueError: If a field is unknown or a value does not fit it; names the nearest fields.
    """
    tree = to_tree(base)
    for override in overrides:
        _merge(tree, override, path=())
    try:
        return _ADAPTER.validate_python(tree)
    except ValidationError as error:
        raise ValueError(_first_problem(error)) from error


def field_names() -> list[str]:
    """Every dotted field name of a run, in the order of the definition."""
    return [name for name, _, _ in describe_fields()]


def describe_fields() -> Iterator[tuple[str, object, str]]:
    """Yield the dotted name, default and description of every field of a run."""
    schema = _ADAPTER.json_schema()
    definitions: Tree = schema["$defs"]
    for name, group in schema["properties"].items():
        reference = group.get("$ref")
        if reference is None:
            yield name, group["default"], group.get("description", "")
            continue
        fields = definitions[reference.rsplit("/", 1)[1]]["properties"]
        for field, details in fields.items():
            yield f"{name}.{field}", details["default"], details.get("description", "")


def _insert(tree: Tree, path: list[str], value: str) -> None:
    for key in path[:-1]:
        inner = tree.setdefault(key, {})
        if not _is_tree(inner):
            inner = tree[key] = {_GROUP_KEY: inner}
        tree = inner
    if _is_tree(tree.get(path[-1])):
        tree[path[-1]][_GROUP_KEY] = value
    else:
        tree[path[-1]] = value


def _merge(tree: Tree, override: Mapping[str, Any], *, path: tuple[str, ...]) -> None:
    for key, value in override.items():
        name = ".".join((*path, key))
        if key not in tree:
            raise ValueError(_refusal(name, key, value))
        if not _is_tree(tree[key]):
            tree[key] = (
                value.split(",") if isinstance(value, str) and _is_list(tree[key]) else value
            )
        elif _is_tree(value):
            _merge(tree[key], value, path=(*path, key))
        elif _GROUP_KEY in tree[key]:
            tree[key][_GROUP_KEY] = value
        else:
            fields = [f"{name}.{field}" for field in tree[key]]
            raise ValueError(f"{name!r} is a group of fields; set one of {', '.join(fields)}")


def _refusal(name: str, key: str, value: object) -> str:
    if key in _CUT_VOCABULARY:
        return (
            "replies are sampled from the whole vocabulary and log-probs are of that distribution "
            "at rollout.temperature, as importance ratios need the full support: there is no "
            f"top-p, top-k or min-p to be set, got {name} = {value}"
        )
    # Not the whole table, as for games or recipes: there are dozens of fields.
    near = get_close_matches(name, field_names(), n=3, cutoff=0.0)
    return f"unknown field {name!r}; nearest: {', '.join(near)} (all: earl train --help)"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    return f"{name}: {_flat(problem['msg'])}, got {problem['input']!r}"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _is_tree(value: object) -> TypeGuard[Tree]:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))
