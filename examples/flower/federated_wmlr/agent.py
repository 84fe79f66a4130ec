"""What runs at an agent; its SuperNode's --node-config names the file."""

from wmlr.flower import agent_app

app = agent_app.app
