"""Figures of loads: a rung stands under the roof of the memory that holds it back, blocks beside model and balance."""

import dataclasses

import pytest

from harness.analysis import rates
from harness.analysis.traffic import model
from harness.experiment import load_all
from harness.interface import Nest
from harness.report.figures import drawing
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


def test_the_roofline_has_a_panel_for_each_memory_that_is_loaded_from(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["roofline"], planted("roofline"), MACHINE, tmp_path)
    for name, levels in (("roofline", "L1 L2 L3"), ("roofline_shapes", "L1 L2 L3 memory")):  # the square fits L3
        titles = [panel.get_title("left").rpartition("\n")[2] for panel in sheets[name].canvas.axes]
        assert [title.partition(": ")[0] for title in titles] == levels.split()
        bandwidths = [float(title.partition(": ")[2].removesuffix(" GB/s")) for title in titles]
        assert bandwidths == [BANDWIDTHS[level] for level in levels.split()]
        assert "measured peak" in texts(sheets[name])
    assert "matrix-vector" in texts(sheets["roofline_shapes"])
    assert "cpu-naive loads times the bytes of cpu-simd" in " ".join(sheets["roofline"].notes)


def test_a_dot_is_full_in_the_panel_of_the_memory_that_holds_its_product_back(tmp_path, sheets):
    everything = planted("roofline")
    drawing.draw(EXPERIMENTS["roofline"], everything, MACHINE, tmp_path)
    dots = {True: set(), False: set()}
    for panel in sheets["roofline"].canvas.axes:
        level = panel.get_title("left").rpartition("\n")[2].partition(":")[0]
        single = [line for line in panel.lines if len(line.get_xdata()) == 1]
        for line in single:
            place = (level, line.get_xdata()[0], line.get_ydata()[0])
            dots[line.get_markerfacecolor() != "white"].add(place)
    square = [cell for cell in rates.contenders(everything) if cell.is_ok and cell.axes["shape"] == "square"]
    roofs = [(model.roof_of(cell, everything), cell) for cell in square]
    assert dots[True] == {(roof.level.name, roof.intensity, cell.rate) for roof, cell in roofs}
    allowed = {
        (level.name, bound.intensity): bound.rate
        for cell in square
        for level, bound in model.roofs_of(cell, everything).items()
    }
    assert {place[:2] for place in dots[True] | dots[False]} == set(allowed)
    for roof, cell in roofs:
        assert roof.rate == min(bound.rate for bound in model.roofs_of(cell, everything).values())


def test_predictions_stand_beside_measurements(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["intensity"], planted("intensity"), MACHINE, tmp_path)
    words = texts(sheets["intensity"])
    assert {"allowed", "measured", "ratio"} <= set(words.split())
    assert "The model of loads explains" in sheets["intensity"].title
    assert "no order of loops moves less" in texts(sheets["intensity_bound"])


def test_blocks_stand_beside_the_choice_of_the_model_and_machine_balance(tmp_path, sheets):
    drawing.draw(EXPERIMENTS["block_size"], planted("block_size"), MACHINE, tmp_path)
    words = texts(sheets["block_size"])
    assert "blocks chosen by the sizes of the caches" in words
    assert "20, from memory" in words  # 8 bytes x 50 GFLOP/s / 10 GB/s, halved by what nc takes; 40 for a tile
    assert "40, from memory" in words
    assert any("Machine balance with memory asks for tiles of 40." in note for note in sheets["block_size"].notes)
    for name in ("L1d 32 KiB", "L2 1 MiB", "L3 8 MiB"):
        assert name in words


def test_the_nearest_memory_of_a_gpu_is_called_l1_too(sheets, tmp_path):
    """A rung that fills no shared memory loads through the L1 of which it is a part."""
    machine = dataclasses.replace(MACHINE, gpu={"name": "Test GPU"})
    drawing.draw(EXPERIMENTS["roofline"], cells(EXPERIMENTS["roofline"], machine=machine), machine, tmp_path)
    written = texts(sheets["roofline"])
    assert "L1/shared: " in written
    assert "\nshared: " not in written
