"""The settings of privacy that options describe."""

from __future__ import annotations

from wmlr.federated.privacy import Privacy


def privacy(
    epsilon: float | None,
    noise: float | None,
    delta: float,
    clip: float,
    rounds: int,
    x_scale: float,
    y_scale: float | None,
    agent_rows: float | None,
) -> Privacy | None:
    """The settings of the noise, or None where none is asked for."""
    if epsilon is None and noise is None:
        return None
    if y_scale is None or agent_rows is None:
        raise ValueError(
            "noise is measured by public numbers: say how large the target usually is by --y-scale, and how many rows "
            "an agent usually has by --agent-rows (and --x-scale, where columns are not of size 1)"
        )
    return Privacy(epsilon, noise, delta, rounds, clip, x_scale, y_scale, agent_rows)
