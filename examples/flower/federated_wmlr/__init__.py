"""The app that `flwr run` starts; all of it is in the installed package."""
