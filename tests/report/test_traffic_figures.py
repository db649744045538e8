"""Figures of loads: a rung stands under the roof of the memory that holds it back, blocks beside model and balance."""

import dataclasses

import pytest

from harness.analysis import rates
from harness.analysis.traffic import model
from harness.experiment import load_all
from harness.interface import Nest
from harness.report.figures import drawing, traffic
from tests._support.sheets import keep, texts
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
BANDWIDTHS = {"L1": 200.0, "L2": 100.0, "L3": 40.0, "memory": 10.0}


@pytest.fixture
def sheets(monkeypatch):
    return keep(monkeypatch)


def planted(name):
    """Return the cells of an experiment, with roofs of which the nearer is the faster."""
    own = cells(EXPERIMENTS[name])
    return [
        dataclasses.replace(cell, samples_ns=[[cell.facts["bytes_moved"] / BANDWIDTHS[cell.axes["level"]]] * 6])
        if cell.axes.get("role") == "bandwidth"
        else cell
        for cell in own
    ]


def test_the_name_of_a_memory_keeps_off_marks_and_within_its_line():
    line, span = (0.01, 10.0), 4.0
    assert traffic._clear_start(line, 20.0, span, []) == pytest.approx(0.01)
    met = [(0.02, 0.42), (0.5, 3.0), (0.2, 40.0)]  # on the line's beginning, far below it, far above it
    start = traffic._clear_start(line, 20.0, span, met)
    assert not start / 1.2 < 0.02 < 1.2 * start * span
    everywhere = [(0.01 * 1.3**i, 0.21 * 1.3**i) for i in range(30)]
    assert traffic._clear_start(line, 20.0, span, everywhere) * span <= line[1]


def test_reuse_moves_a_point_to_the_right():
    everything = planted("roofline")
    packed = next(c for c in everything if c.contender == "cpu-packed" and c.axes.get("shape") == "square")
    places = []
    for side in (1, 2, 4, 8):
        nest = Nest.of(("i", side), ("j", side), ("p", 1, "registers"), order_b="jp")
        cell = dataclasses.replace(packed, facts={**packed.facts, "nest": nest.to_json()})
        places.append(model.predict(cell, everything))
    intensities = [place.intensity for place in places]
    assert intensities == sorted(intensities)
    assert intensities[-1] > 7 * intensities[0]
    assert [place.rate for place in places] == sorted(place.rate for place in places)


def test_a_product_that_fits_l3_stands_under_the_roof_of_l3():
    everything = planted("roofline")
    square = [c for c in rates.contenders(everything) if c.axes["shape"] == "square" and c.contender == "cpu-numpy"]
    assert [model.roof_of(cell, everything).level.name for cell in square] == ["L3"]  # 6 MiB of 8


def test_the_roofline_names_every_memory_and_joins_points_to_their_roofs(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["roofline"], planted("roofline"), MACHINE, tmp_path)
    for name in ("roofline", "roofline_shapes"):
        words = texts(sheets[name])
        for level, bandwidth in BANDWIDTHS.items():
            assert f"{level}: {bandwidth:.3g}" in words
        assert "measured peak" in words
    assert "matrix-vector" in texts(sheets["roofline_shapes"])
    assert " of the bytes of cpu-naive from " in sheets["roofline"].title
    assert any(note.startswith("Bytes that are loaded by cpu-naive over ") for note in sheets["roofline"].notes)


def test_predictions_stand_beside_measurements(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["intensity"], planted("intensity"), MACHINE, tmp_path)
    words = texts(sheets["intensity"])
    assert {"allowed", "measured", "ratio"} <= set(words.split())
    assert "What a kernel loads explains" in sheets["intensity"].title
    assert "no order of loops moves less" in texts(sheets["intensity_bound"])


def test_blocks_stand_beside_the_choice_of_the_model_and_machine_balance(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["block_size"], planted("block_size"), MACHINE, tmp_path)
    words = texts(sheets["block_size"])
    assert "blocks chosen by the sizes of the caches" in words
    assert "20, from memory" in words  # 8 bytes x 50 GFLOP/s / 10 GB/s, halved by what nc takes; 40 for a tile
    assert "40, from memory" in words
    assert "Machine balance with memory asks for tiles of 40." in sheets["block_size"].notes
    for name in ("L1d 32 KiB", "L2 1 MiB", "L3 8 MiB"):
        assert name in words


def test_the_nearest_memory_of_a_gpu_is_called_l1_too(sheets, tmp_path):
    """A rung that fills no shared memory loads through the L1 of which it is a part."""
    machine = dataclasses.replace(MACHINE, gpu={"name": "Test GPU"})
    drawing.draw(EXPERIMENTS["roofline"], cells(EXPERIMENTS["roofline"], machine=machine), machine, tmp_path)
    written = texts(sheets["roofline"])
    assert "L1/shared: " in written
    assert "\nshared: " not in written
