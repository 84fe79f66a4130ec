"""What the words of a command or of a run's configuration mean: rows, an estimator, guards."""
