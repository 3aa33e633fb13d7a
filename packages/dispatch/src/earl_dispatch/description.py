"""A transfer plan as text."""

from earl_dispatch.network import Network, floor_time_s, predicted_time_s
from earl_dispatch.plan import TransferPlan

_MAX_LINKS = 32
"""Links that are listed, the busiest first."""


def describe_plan(plan: TransferPlan, network: Network | None = None) -> str:
    """Return lines of text on what a plan moves, beside what any scheme has to.

    Args:
        plan: The plan; `str(plan)` describes it without a network.
        network: Links between its hosts, to predict the time that it takes; no time if None.
    """
    lines = [
        f"{plan.source.num_rows} rows, {plan.num_ranks} ranks, "
        f"{len(set(plan.hosts.of[: plan.num_ranks]))} hosts",
        f"bytes_moved: {plan.bytes_moved} (bytes_lower_bound: {plan.bytes_lower_bound})",
        f"bytes_between_hosts: {plan.bytes_between_hosts} "
        f"(bytes_between_hosts_lower_bound: {plan.bytes_between_hosts_lower_bound})",
        f"messages: {plan.messages} in {len(plan.rounds)} rounds",
        *_link_lines(plan),
    ]
    if network is not None:
        lines.append(
            f"predicted_time_s: {predicted_time_s(plan, network):.4g} "
            f"(floor_time_s: {floor_time_s(plan, network):.4g})"
        )
    return "\n".join(lines)


def _link_lines(plan: TransferPlan) -> list[str]:
    busiest = sorted(plan.link_bytes.items(), key=lambda load: (-load[1], load[0]))
    lines = [
        f"within host {source}: {num_bytes} bytes"
        if source == target
        else f"host {source} to host {target}: {num_bytes} bytes"
        for (source, target), num_bytes in busiest[:_MAX_LINKS]
    ]
    if rest := busiest[_MAX_LINKS:]:
        lines.append(f"{len(rest)} more, of {rest[0][1]} bytes at most")
    return lines
