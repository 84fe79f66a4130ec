"""What the benchmark of agents may be asked for."""

import pytest

from wmlr import bench


def test_the_benchmark_of_agents_has_one_part_of_its_own():
    with pytest.raises(ValueError, match="one part of its own, rounds"):
        bench.run("agents", parts="table")
