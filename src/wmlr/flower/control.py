"""Commands to our own SuperLink: enlist agents, begin a run."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext

from wmlr.flower.superlink import HEADER
from wmlr.version import __version__

APP = f"""\
[project]
name = "federated-wmlr"
version = "{__version__}"
license = "BSD-3-Clause"
dependencies = ["wmlr[flower]"]

[tool.flwr.app]
publisher = "wmlr"

[tool.flwr.app.components]
serverapp = "federated_wmlr.server:app"
clientapp = "federated_wmlr.agent:app"

[tool.flwr.app.config]
"""
"""The app as a SuperLink wants it. An agent that is a ``wmlr agent`` runs none of its code, but its own."""


class Word:
    """Says the word that the SuperLink's door wants."""

    def __init__(self, word: str) -> None:
        self.word = word

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.headers[HEADER] = self.word
        return call_next(context)


def commander(address: str, word: str, authority: Path | None) -> ControlHttpClient:
    """A connection to the SuperLink's Control."""
    certificate = None if authority is None else authority.read_bytes()
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    return ControlHttpClient.from_server_address(address, authority is None, certificate, [version, Word(word)])


def enlist(control: ControlHttpClient, keys: Mapping[str, bytes]) -> None:
    """Let the agents with these public keys in, each under its name."""
    for name, key in keys.items():
        control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))


def begin_run(control: ControlHttpClient) -> int:
    """Begin a run of our app; its number."""
    content, _ = build_fab_from_files(
        {
            "pyproject.toml": APP.encode(),
            "federated_wmlr/__init__.py": b"",
            "federated_wmlr/server.py": b"from wmlr.flower import server_app\n\napp = server_app.app\n",
            "federated_wmlr/agent.py": b"from wmlr.flower import agent_app\n\napp = agent_app.app\n",
        }
    )
    fab = Fab(sha256(content).hexdigest(), content, {})
    begun = control.StartRun(StartRunRequest(fab=fab_to_proto(fab)))
    if not begun.HasField("run_id"):
        raise RuntimeError("the SuperLink did not begin the run")
    return int(begun.run_id)
