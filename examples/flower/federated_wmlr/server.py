"""What runs at the server."""

from wmlr.flower import server_app

app = server_app.app
