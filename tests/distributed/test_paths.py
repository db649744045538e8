import pytest

from tests._support import ranks

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("count", [2, *(pytest.param(count, marks=pytest.mark.deep) for count in (1, 3))])
def test_rows_on_ranks_have_the_paths_of_the_whole_graph(count):
    answer = ranks.run(count, "rank_paths.py")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "all alike\n"
