"""An agent's SuperNode, which looks for messages more often than Flower's own.

python -m wmlr.flower.supernode OPTIONS OF flower-supernode
"""

from __future__ import annotations

import os

from wmlr.flower.processes import PAUSE, follow_parent


def main() -> None:
    """Run ``flower-supernode`` with the pause that the environment names."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    from wmlr.flower.polling import fetch_sooner, look_every

    follow_parent()
    fetch_sooner()
    look_every(float(os.environ.pop(PAUSE)), start_client_internal)
    flower_supernode()
    os._exit(1)  # it came back because the connection was lost, and threads of its own would keep it


if __name__ == "__main__":
    main()
