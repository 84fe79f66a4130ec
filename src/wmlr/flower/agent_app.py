"""The ClientApp: what a Flower message asks, put to an agent."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

from wmlr.federated.privacy.budget import Budget
from wmlr.flower.admission import short
from wmlr.flower.agent import Agent
from wmlr.flower.answering import END, JOIN, KEYS, MASKED, REVEAL, ROUND, SHARES, Memory, respond
from wmlr.flower.messages import RECORD, pack, unpack
from wmlr.flower.refusals import WORD
from wmlr.flower.terms import RunTerms
from wmlr.options.data import DataOptions
from wmlr.options.problem import Numbers, load_numbers

Tell = Callable[[str], None]
OnEnd = Callable[[str, bool], None]


def agent_of(rows: Numbers, file: str, name: str | None = None, **limits: Any) -> Agent:
    """An agent with the rows of a file that its operator names.

    Its columns are in the order of their names, so that agents agree whatever the order in their files.

    Parameters
    ----------
    rows : what the file has.
    file : what to call it in messages.
    name : of the agent; None for this machine's.
    **limits : as :class:`Agent` has them.
    """
    columns = tuple(sorted(rows.names, key=_natural))
    X = np.ascontiguousarray(rows.X[:, [rows.names.index(column) for column in columns]])
    agent = Agent(name or gethostname(), X, rows.y, columns, rows.target, **limits)
    if not 0 < agent.max_delta < 1:
        raise ValueError(f"--max-delta must be above 0 and below 1 (got {agent.max_delta})")
    if agent.min_rows < 1:
        raise ValueError(f"--min-rows must be at least 1 (got {agent.min_rows})")
    if len(agent) < agent.min_rows:
        raise ValueError(f"{file} has {len(agent)} rows and --min-rows is {agent.min_rows}: it could answer nothing")
    return agent


def budget_file(data: str) -> Path:
    """Where an agent keeps what its noisy answers have cost: beside its data, or here for data that is built in."""
    path = Path(data).resolve() if Path(data).exists() else Path(data)
    if path.is_file() and path.stat().st_nlink > 1:
        raise ValueError(
            f"{path} has several names, and each would have a budget of its own: name one for all with --budget, "
            "or copy the rows to a new file"
        )
    return path.with_name(f"{path.name}.budget.json") if path.exists() else Path(f"{path.name}.budget.json")


def _natural(name: str) -> list[Any]:
    """By which x2 comes before x10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def agent_app(find: Callable[[Context], Agent], tell: Tell | None = None, on_end: OnEnd | None = None) -> ClientApp:
    """An app that answers for an agent.

    Parameters
    ----------
    find : the agent to answer for, in the context of a message.
    tell : hears what was answered or refused.
    on_end : hears that the server is done with this agent, and whether the fit was finished.
    """
    app = ClientApp()
    say = tell or (lambda text: None)

    def answerer(action: str) -> Callable[[Message, Context], Message]:
        def answer(message: Message, context: Context) -> Message:
            try:
                answered = respond(action, unpack(message), find(context), _memory(context))
            except Exception as error:
                say(f"refused: {error if isinstance(error, ValueError) else f'{type(error).__name__}: {error}'}")
                return Message(pack({"refusal": WORD}), reply_to=message)
            context.state[RECORD] = ConfigRecord(asdict(answered.memory))
            if answered.what:
                say(f"answered {answered.what}")
            return Message(pack(answered.content), reply_to=message)

        return answer

    for action in (JOIN, ROUND, KEYS, SHARES, MASKED, REVEAL):
        app.query(action)(answerer(action))

    @app.query(END)
    def end(message: Message, context: Context) -> Message:
        content, memory = unpack(message), _memory(context)
        privacy = RunTerms.of(memory.terms).privacy if memory.answered else None
        if privacy is not None:
            say(str(privacy.spent(memory.answered)))
            agent = find(context)
            cost = agent.budget.epsilon(agent.max_delta)
            say(f"all noisy answers so far: epsilon {cost:.4g} at delta {agent.max_delta:.3g}")
        if on_end is not None:
            on_end(short(str(content.get("reason", ""))), content.get("done") is True)
        return Message(pack({}), reply_to=message)

    return app


def _memory(context: Context) -> Memory:
    record = context.state.get(RECORD)
    return Memory(**record) if isinstance(record, ConfigRecord) else Memory()  # type: ignore[arg-type]


def _from_node_config(context: Context) -> Agent:
    """The agent that ``flower-supernode --node-config`` describes."""
    given = context.node_config
    for wanted in ("data", "target"):
        if wanted not in given:
            raise ValueError(f"this SuperNode names no {wanted}: start it with --node-config '{wanted}=\"...\"'")
    features, name, epsilon = given.get("features"), given.get("name"), given.get("max-epsilon")
    file = str(Path(str(given["data"])).expanduser())
    options = DataOptions(target=str(given["target"]), features=None if features is None else str(features))
    budget = Budget() if epsilon is None else Budget.read(budget_file(file))
    return agent_of(
        load_numbers(file, options),
        file,
        str(name) if name is not None else f"node-{context.node_id}",
        min_rows=int(given.get("min-rows", 10)),
        only_secure=bool(given.get("only-secure", False)),
        min_agents=int(given.get("min-agents", 3)),
        max_epsilon=None if epsilon is None else float(epsilon),
        max_delta=float(given.get("max-delta", 1e-5)),
        budget=budget,
    )


app = agent_app(_from_node_config)
