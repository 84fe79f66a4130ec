"""The paper's tables and figures regenerated, and its theory measured: one file each."""
