"""``wmlr server keys``: make the certificates and keys by which server and agents trust each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlr.cli import _places


def keys(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder to fill.", metavar="FOLDER", callback=_places.folder)
    ],
    agents: Annotated[int, typer.Option(help="How many agents' keys to make.", min=1)] = 1,
    names: Annotated[str | None, typer.Option(help="In place of --agents: what they are called, as a,b,c.")] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="Names by which agents will reach the server; may be repeated.")
    ] = None,
    days: Annotated[int, typer.Option(help="How long the certificate is good for.")] = 365,
) -> None:
    """Make certificates for the server, and a key for each agent."""
    from wmlr import flower

    flower.require()
    from wmlr.flower.keys import make_keys

    called = [f"agent-{number}" for number in range(1, agents + 1)] if names is None else names.split(",")
    made = make_keys(out, [name.strip() for name in called], host or [], days)
    print(f"{out}/ca.crt, ca.key            the authority; keep ca.key from the server")
    print(f"{out}/server.crt, server.key    the server's, good for {', '.join(made.hosts)} and {days} days")
    for name in (*made.agents, *made.kept):
        print(f"{out}/agents/{name}, {name}.pub{'    kept as it was' if name in made.kept else ''}")
    print(f"server: wmlr server --agents {len(called)} --tls {out} --keys {out}/agents ...")
    print("agent:  wmlr agent --tls ca.crt --key NAME ...   (bring it ca.crt, its own NAME and NAME.crt)")
