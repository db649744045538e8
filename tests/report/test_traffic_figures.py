"""Figures of loads: a rung stands under the roof of the memory that holds it back, blocks beside model and balance."""

import dataclasses

from harness.analysis import rates
from harness.analysis.traffic import model
from harness.catalogue import load_all
from harness.interface import Nest
from tests._support.charts import charts, points, words
from tests._support.synthetic import MACHINE, cells

EXPERIMENTS = load_all()
BANDWIDTHS = {"L1": 200.0, "L2": 100.0, "L3": 40.0, "memory": 10.0}


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


def level_of(panel):
    """Return the memory that a panel is about."""
    return panel.title.rpartition("\n")[2].partition(": ")[0]


def test_the_roofline_has_a_panel_for_each_memory_that_is_loaded_from():
    made = charts(EXPERIMENTS["roofline"], planted("roofline"))
    for name, levels in (("roofline", "L1 L2 L3"), ("roofline_shapes", "L1 L2 L3 memory")):  # the square fits L3
        assert [level_of(panel) for panel in made[name].panels] == levels.split()
        for panel in made[name].panels:
            assert panel.title.endswith(
                f": {BANDWIDTHS[level_of(panel)]:.3g} GB/s".replace(": 10 ", ": 10.0 ").replace(": 40 ", ": 40.0 ")
            )
        assert "measured peak" in words(made[name])
    assert "matrix-vector" in made["roofline_shapes"].legend
    assert "cpu-naive loads times the bytes of cpu-simd" in " ".join(made["roofline"].notes)


def test_a_dot_is_full_in_the_panel_of_the_memory_that_holds_its_product_back():
    everything = planted("roofline")
    dots = {True: set(), False: set()}
    for panel in charts(EXPERIMENTS["roofline"], everything)["roofline"].panels:
        for series in (series for series in panel.series if series.name):
            (point,) = series.points
            is_full = series.look["markerfacecolor"] != "white"
            dots[is_full].add((level_of(panel), point.at, point.value.estimate))
    square = [cell for cell in rates.contenders(everything) if cell.is_ok and cell.axes["shape"] == "square"]
    roofs = [(model.roof_of(cell, everything), cell) for cell in square]
    assert dots[True] == {(roof.level.name, roof.intensity, cell.rate) for roof, cell in roofs}
    allowed = {
        (level.name, bound.intensity) for cell in square for level, bound in model.roofs_of(cell, everything).items()
    }
    assert {place[:2] for place in dots[True] | dots[False]} == allowed
    for roof, cell in roofs:
        assert roof.rate == min(bound.rate for bound in model.roofs_of(cell, everything).values())


def test_predictions_stand_beside_measurements():
    made = charts(EXPERIMENTS["intensity"], planted("intensity"))
    (panel, *_) = made["intensity"].panels
    assert panel.table.heads[-3:] == ["allowed", "measured", "ratio"]
    rings = points(panel, markerfacecolor="white")
    assert rings
    assert all(ring.begin in {cell.rate for cell in planted("intensity") if cell.is_ok} for ring in rings)
    assert "The model of loads explains" in made["intensity"].title
    assert "no order of loops moves less" in words(made["intensity_bound"])


def test_blocks_stand_beside_the_choice_of_the_model_and_machine_balance():
    made = charts(EXPERIMENTS["block_size"], planted("block_size"))["block_size"]
    told = words(made)
    assert "blocks chosen by the sizes of the caches" in made.legend
    assert "20, from memory" in told  # 8 bytes x 50 GFLOP/s / 10 GB/s, halved by what nc takes; 40 for a tile
    assert "40, from memory" in told
    assert any("Machine balance with memory asks for tiles of 40." in note for note in made.notes)
    for name in ("L1d 32 KiB", "L2 1 MiB", "L3 8 MiB"):
        assert name in told


def test_the_nearest_memory_of_a_gpu_is_called_l1_too():
    """A rung that fills no shared memory loads through the L1 of which it is a part."""
    machine = dataclasses.replace(MACHINE, gpu={"name": "Test GPU"})
    made = charts(EXPERIMENTS["roofline"], cells(EXPERIMENTS["roofline"], machine=machine), machine)["roofline"]
    levels = [level_of(panel) for panel in made.panels if panel.series]
    assert "L1/shared" in levels
    assert "shared" not in levels
