"""What a kernel takes of a multiprocessor, as the driver says it: the compiler's report is not needed."""

from types import SimpleNamespace

from backends.gpu._cuda import device
from backends.gpu._program.program import Kernel
from backends.gpu._tasks import occupancy

ATTRIBUTES = {1: 256, 4: 96}  # cuda.h: static shared memory, registers


def test_registers_and_shared_memory_come_from_the_driver(monkeypatch):
    driver = SimpleNamespace(
        funcGetAttribute=lambda attribute, function: ATTRIBUTES[attribute],
        occupancyMaxActiveBlocksPerMultiprocessor=lambda function, threads, shared: 65536 // (96 * threads),
    )
    monkeypatch.setattr(device, "cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(driver=driver)))
    monkeypatch.setattr(occupancy, "load_kernel", lambda *arguments: SimpleNamespace(ptr=1))
    taken = occupancy.taken(Kernel("tuned", (), (128, 2), shared_bytes=1024))
    assert taken == {"registers": 96, "threads": 256, "shared_bytes": 1280, "blocks": 2}
