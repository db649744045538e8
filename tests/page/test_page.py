"""The page holds what the store holds: sentences, numbers, provenance; in one file that asks nothing of a network."""

from __future__ import annotations

import ast
import base64
import dataclasses
import gzip
import itertools
import json
import re
import sys
from urllib.parse import parse_qsl

import numpy as np
import pytest

pytest.importorskip("jinja2")

from harness.analysis import answers, rates
from harness.catalogue import load_all
from harness.cli import page as command
from harness.errors import HarnessError
from harness.page import belief, cards, charts, colours, document, matrix, plain, recorded, rungs, weak
from harness.page.recorded import Recorded
from harness.report.figures.looks import COLOURS
from harness.semiring import SEMIRINGS
from harness.stats.statistics import Interval
from harness.store.store import Store
from tests._support import planted_store

EXPERIMENTS = load_all()
# Roles of cases, and contenders beside those that they bound, that are no contenders: the page has no row for them.
ROOFS = ("peak", "AVX2 peak", "bandwidth", "link", "read")


@pytest.fixture(scope="module")
def page(page_file):
    """Return the page of stored results, and what it packs."""
    text = page_file.read_text(encoding="utf-8")
    return text, unpacked(text)


@pytest.fixture(scope="module")
def rows(machines):
    """Return what the page shows of the cells of each machine, by the name of its folder."""
    return {own.slug: list(recorded.shown(own, EXPERIMENTS)) for own in machines}


@pytest.fixture(scope="module")
def made_cards(machines):
    """Return the cards of each machine."""
    return [cards.cards(own, EXPERIMENTS.values()) for own in machines]


def unpacked(text):
    """Return the data that a page carries."""
    (packed,) = re.findall(r'<script type="text/plain" id="data">([^<]*)<', text)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def with_ladder(machines):
    """Return the machine whose ladder the page shows."""
    return next(own for own in machines if any(cell.experiment == "ladder" for cell in own.cells))


def column(data, name):
    """Return a column of the cells, one value a cell."""
    values = data["cells"][name]
    return [values["texts"][place] for place in values["at"]] if isinstance(values, dict) else values


def test_is_small_enough(page):
    text, _ = page
    assert len(text.encode()) <= document.LIMIT <= 2_000_000


def test_names_no_address_that_could_be_asked(page):
    text, _ = page
    visible = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.DOTALL)
    assert re.findall(r"https?://\S+", visible.replace("http://www.w3.org/", "")) == []
    assert "content=\"default-src 'none';" in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", visible)


def test_the_tables_that_need_no_script_hold_every_cell_once(machines, rows):
    own = rows[with_ladder(machines).slug]
    tables = plain.plain(own, has_intervals=False)
    assert sum(table.cells for table in tables) == len(own)
    kinds = {table.heads[1] == "contender" for table in tables}
    assert kinds == {True, False}, "some have a line for each contender, some a column"
    for table in tables:
        here = [row for row in own if row.experiment == table.experiment]
        if table.heads[1] == "contender":
            assert sorted(line[1] for line in table.lines) == sorted(row.contender for row in here)
        else:
            filled = {
                (line[0], name) for line in table.lines for name, field in zip(table.heads, line, strict=True) if field
            }
            filled = {(place, name) for place, name in filled if name in {row.contender for row in here}}
            assert len(filled) == len(here)
        texts = {field.partition(" (")[0] for line in table.lines for field in line}
        assert {plain.estimate(row.rate) for row in here if row.rate and row.unit in table.heads[0]} <= texts


def test_every_value_of_these_tables_has_a_unit(rows):
    of_all = list(itertools.chain(*rows.values()))
    units = {row.unit if row.rate else "ms" for row in of_all if row.rate or row.time}
    seen = set()
    for table in plain.plain(of_all, has_intervals=True):
        place = ""
        for line in table.lines:
            place, first = line[0] or place, 2 if table.heads[1] == "contender" else 1
            for field in [line[2]] if first == 2 else line[1:]:
                around = [*table.heads[0].partition(" (")[0].split(", "), *place.split(", ")]
                found = [unit for unit in units if unit in around] or [unit for unit in units if f" {unit}" in field]
                assert len(found) == 1 or not re.match(r"[0-9]", field), (table.heads[0], line)
                seen |= {*found}
    assert seen == units


def test_values_of_one_case_with_two_units_carry_their_own(machines, rows):
    own = rows[with_ladder(machines).slug]
    first = next(row for row in own if row.rate and row.unit == "GFLOP/s")
    other = dataclasses.replace(first, contender="another", unit="Gop/s")
    (table,) = plain.plain([first, other], has_intervals=False)
    fields = [field for line in table.lines for field in line]
    assert any(field.startswith(f"{plain.estimate(first.rate)} GFLOP/s") for field in fields)
    assert any(field.startswith(f"{plain.estimate(first.rate)} Gop/s") for field in fields)
    assert "op/s" not in table.lines[0][0] + table.heads[0]


def test_no_two_machines_have_one_name(machines):
    names = [own.name for own in machines]
    assert len({*names}) == len(names)


def test_every_rate_and_time_is_that_of_the_stored_samples(page, machines):
    """Medians and operations are computed anew here, by NumPy, from the samples of every cell."""
    _, data = page
    shown = {}
    names = ("machine", "experiment", "case", "contender", "on", "measured", "rate", "time", "taken", "processes")
    for row in zip(*(column(data, name) for name in names), strict=True):
        shown.setdefault(row[0:2] + row[3:4], []).append(row[6:])
    for own in machines:
        expected = {}
        for cell in own.cells:
            if cell.is_ok and cell.axes.get("role") not in ROOFS and cell.contender not in ROOFS:
                time_ns = float(np.median([sample for process in cell.samples_ns for sample in process]))
                rate = cell.facts["operations"] / time_ns if "operations" in cell.facts else None
                samples = sum(map(len, cell.samples_ns))
                key = (own.name, cell.experiment, cell.contender)
                expected.setdefault(key, []).append((rate, time_ns / 1e6, samples, len(cell.samples_ns)))
        for key, cells in expected.items():
            found = sorted((row for row in shown[key] if row[1] is not None), key=str)
            rounded = sorted(
                (
                    (rate if rate is None else recorded.digits(rate), recorded.digits(time), *rest)
                    for rate, time, *rest in cells
                ),
                key=str,
            )
            assert found == rounded, key


def test_cards_say_what_the_experiments_have_found(page, machines):
    text, _ = page
    heads = [re.sub("&#39;", "'", head) for head in re.findall(r"<h4>(.*?)\.</h4>", text)]
    for own in machines:
        for experiment in EXPERIMENTS.values():
            cells = [cell for cell in own.cells if cell.experiment == experiment.name]
            if any(cell.is_ok for cell in cells):
                finding = answers.of_experiment(experiment, own.cells)
                assert not finding or finding.replace("&", "&amp;") in heads
    assert len(heads) > (20 if len(machines) > 4 else 12)


def test_every_number_of_a_card_is_that_of_its_sentence_and_has_a_word_of_confidence(made_cards):
    made = list(itertools.chain(*made_cards))
    assert {card.confidence for card in made} <= set(cards.CONFIDENCE)
    with_number = [card for card in made if card.value]
    undecided = [card for card in made if card.finding.endswith("nothing is decided")]
    assert undecided
    assert not any(card.value or card.confidence == "high" for card in undecided)
    assert len(with_number) > 0.4 * (len(made) - len(undecided))
    for card in with_number:
        assert card.value in card.finding, "the number of its sentence"
        if card.interval:
            said = f"{card.value} {card.interval}".replace(",", "")
            estimate, low, high = map(float, re.findall(r"[\d.]+", said))
            assert low <= estimate <= high
    vs_peers = next(card for card in made if (card.experiment, card.machine) == ("vs_peers", "AMD EPYC, 2 cores"))
    assert vs_peers.address.startswith("machine=AMD+EPYC%2C+2+cores&experiment=vs_peers&semiring=plus_times")


@pytest.mark.parametrize("processes", [1, 3])
def test_confidence_is_high_from_three_processes_on(tmp_path, processes):
    store, noise = Store(tmp_path / "planted" / "quick"), np.random.default_rng(1)
    store.append(planted_store.begun())
    for n in (64, 96):
        axes = {"n": n, "m": n, "k": n, "semiring": "plus_times", "dtype": "float64"}
        samples = {
            name: (noise.normal(mean, 0.01, (processes, 20))).tolist() for name, mean in (("simd", 1), ("numpy", 2))
        }
        for name, times in samples.items():
            facts = {"operations": 2 * n**3}
            changes = {"experiment": "vs_peers", "axes": axes, "samples_ns": times, "facts": facts}
            store.append(
                planted_store.cell(name, n, **changes, reference="simd", processes=processes),
                machine=planted_store.MACHINE,
            )
    store.append(planted_store.done("run1", "vs_peers"))
    own = Recorded("planted", store.cells(), store.machine(), tmp_path / "planted")
    (card,) = cards.cards(own, [EXPERIMENTS["vs_peers"]])
    assert card.confidence == ("high" if processes == 3 else "medium")
    assert card.value.startswith("2.0")


def test_cards_without_a_verdict_come_last(made_cards):
    for made in made_cards:
        order = [(card.confidence == "low", -card.prominence) for card in made]
        assert order == sorted(order)


def test_names_that_all_cases_have_at_a_place_stand_in_the_head():
    named = [["n=8", "rows 10", "one", "GPU"], ["n=16", "rows 20", "two", "GPU"]]
    assert plain._places(named) == ("case, GPU, n …, rows …", ["8, 10, one", "16, 20, two"])
    other = [["n=8", "rows 10"], ["n=16", "columns 20"]]
    assert plain._places(other) == ("case, n …", ["8, rows 10", "16, columns 20"])
    fewer = [["n=8", "rows 10"], ["n=16"]]
    assert plain._places(fewer) == ("case", ["n=8, rows 10", "n=16"])
    assert plain._places([["n=8", "rows 10"]]) == ("case", ["n=8, rows 10"])


def test_ends_of_a_percent_of_peak_are_left_out_where_they_follow(machines, rows):
    row = next(row for row in rows[with_ladder(machines).slug] if row.rate and row.peak)
    follows = dataclasses.replace(row, rate=Interval(10, 9, 12), peak=Interval(50, 45, 60))
    own = dataclasses.replace(row, rate=Interval(10, 9, 12), peak=Interval(50, 40, 60))
    alone = dataclasses.replace(row, rate=None, peak=Interval(50, 45, 60))
    table = recorded.columns([follows, own, alone])
    assert table["peak"] == [50, 50, 50]
    assert table["peak_low"] == [None, 40, 45]
    assert table["peak_high"] == [None, 60, 60]


def test_places_where_it_is_slow_are_all_there_the_worst_first(machines, page):
    found = weak.places(machines, list(EXPERIMENTS.values()))
    percents = [place.percent for place in found]
    assert percents == sorted(percents, reverse=True)
    assert all(percent > 0 for percent in percents)
    assert f"{len(found)} places" in page[0]
    assert not any(
        weak.is_ours(place.against, EXPERIMENTS[place.experiment]) for place in found if place.kind == "beaten"
    )
    assert {place.kind for place in found} == {"beaten", "ragged size"}


@pytest.mark.parametrize(
    ("rival", "is_weak"),
    [
        ({}, True),
        ({"facts": {"operations": 6, "density": 0.1}}, False),  # it skips nine elements of ten
        ({"facts": {"operations": 6, "problem": {"semiring": "min_plus"}}}, False),
    ],
)
def test_ours_is_slow_where_a_library_does_the_same_work_in_less_time(tmp_path, rival, is_weak):
    store = Store(tmp_path / "planted" / "quick")
    facts = {"operations": 6, "problem": {"semiring": "plus_times"}}
    for name, changes in (("simd", {"samples_ns": [[4.0, 4.0]]}), ("numpy", {"samples_ns": [[2.0, 2.0]], **rival})):
        record = {"experiment": "vs_peers", "processes": 1, "facts": facts, **changes}
        store.append(planted_store.cell(name, reference="simd", **record), machine=planted_store.MACHINE)
    own = Recorded("planted", store.cells(), store.machine(), tmp_path / "planted")
    found = weak.places([own], [EXPERIMENTS["vs_peers"]])
    assert [(place.contender, place.against) for place in found] == [("simd", "numpy")] * is_weak


@pytest.mark.deep
@pytest.mark.parametrize("machines", ["all"], indirect=True)  # of a few, none has measured batches
def test_no_sparse_library_and_no_other_semiring_is_among_the_places_where_it_is_slow(machines):
    found = weak.places(machines, [EXPERIMENTS[name] for name in ("sparse_crossover", "batched")])
    assert {place.experiment for place in found} == {"batched"}
    assert not any("min_plus" in place.contender for place in found)


def test_what_is_yours_comes_first(machines, tmp_path):
    """Its cards, the chart that opens, and the places where it is slow, however much others have found."""
    few, many = sorted(
        machines[2:], key=lambda own: max(card.prominence for card in cards.cards(own, EXPERIMENTS.values()))
    )[:: len(machines) - 3]
    yours = few._replace(is_own=True)
    document.write([yours, many], EXPERIMENTS, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = unpacked(text)
    assert re.findall(r"<h3>(.*?)</h3>", text)[0] == yours.name
    assert dict(parse_qsl(data["first"]))["machine"] == yours.name
    names = data["weak"]["panels"][0]["y"]["names"]
    is_yours = [name.endswith(yours.name) for name in names]
    assert is_yours == sorted(is_yours, reverse=True)
    assert not all(is_yours)


def test_what_does_not_exist_is_not_called_not_measured(machines, rows):
    row = next(row for row in itertools.chain(*rows.values()) if row.experiment == "percent_of_peak" and row.peak)
    kinds = (("plus_times", "float64"), ("plus_times", "float32"), ("min_plus", "float64"), ("lor_land", "bool"))
    measured = [dataclasses.replace(row, semiring=semiring, dtype=dtype) for semiring, dtype in kinds]
    (made,) = matrix.matrices(machines, measured, EXPERIMENTS.values())
    fields = {
        (semiring, dtype): field for semiring, own in made.rows for dtype, field in zip(made.dtypes, own, strict=True)
    }
    assert [place for place, field in fields.items() if field == matrix.NOT_MEASURED] == [("min_plus", "float32")]
    absent = [(semiring, dtype) for semiring, dtype in fields if SEMIRINGS[semiring].unsupported(np.dtype(dtype))]
    assert [place for place, field in fields.items() if field == matrix.NO_SUCH] == absent
    assert len(absent) == 4
    assert matrix._why("one of your own", "float64") == matrix.NOT_MEASURED


def test_what_speaks_for_and_against_is_told(page, machines):
    text, _ = page
    beliefs = [belief.belief(own) for own in machines]
    assert any(own.spreads for own in beliefs)
    for own in beliefs:
        for line in (*own.verdicts, own.spread, *own.facts.values()):
            assert line.replace("&", "&amp;") in text
    commits = {str(cell.record["commit"]) for machine in machines for cell in machine.cells if cell.is_current}
    assert all(commit in text for commit in commits)


def test_each_rung_shows_code_that_is_in_its_file(machines):
    made = rungs.rungs(with_ladder(machines))
    assert [rung.label for rung in made] == list(rungs.KERNELS)
    for rung in made:
        assert isinstance(ast.parse(rung.code).body[0], ast.FunctionDef)
        assert rung.loops.startswith(("loop", "copy", "problem"))
        assert rung.picture.startswith('<svg role="img" aria-label="What ')
        assert rung.rate.endswith("GFLOP/s")
    assert [bool(rung.step) for rung in made] == [False] + [True] * 5


def test_a_picture_shows_where_operands_lie():
    for label, blocks in rungs.PICTURES.items():
        drawn = rungs.picture(label)
        assert drawn.count("var(--level-") >= len(blocks)
        assert label in rungs.KERNELS


def test_charts_that_no_choice_changes_hold_what_figures_and_tables_hold(page, machines):
    own = with_ladder(machines)
    roofs = charts.roofline(own, EXPERIMENTS)
    assert {series.name for panel in roofs.panels for series in panel.series if series.name} >= set(rungs.KERNELS)
    rates_of = {cell.rate for cell in own.cells if cell.experiment == "roofline" and cell.is_ok}
    assert {p.value.estimate for panel in roofs.panels for s in panel.series if s.name for p in s.points} <= rates_of
    _, data = page
    assert [len(panel["series"]) for panel in data["roofline"]["panels"]] == [len(p.series) for p in roofs.panels]
    places = weak.places(machines, list(EXPERIMENTS.values()))[: document.MOST_DRAWN]
    (panel,) = data["weak"]["panels"]
    assert panel["y"]["names"] == [place.name for place in places]
    missing = [series["points"][0]["value"][0] for series in panel["series"]]
    assert missing == pytest.approx([place.percent for place in places], rel=1e-3)
    counts = [point["value"][0] for point in data["spread"]["panels"][0]["series"][0]["points"]]
    assert sum(counts) == sum(len(belief.belief(machine).spreads) for machine in machines)
    assert not re.findall(r"#[0-9A-F]{6}\"", json.dumps(data["weak"])), "colours follow the scheme"


@pytest.mark.parametrize(
    ("value", "said"), [(78.147, "78.1"), (62.2487, "62.2"), (62.2513, "62.3"), (0.405499, "0.405"), (4194.2, "4194")]
)
def test_numbers_of_the_page_are_rounded_as_those_of_the_report_are(value, said):
    """What the page rounds to three digits has been rounded before; both together must not lead elsewhere."""
    rounded = recorded.digits(value)
    shown = f"{rounded:.3g}" if value < 999.5 else f"{rounded:.0f}"
    assert shown == said == (f"{value:.3g}" if value < 999.5 else f"{value:.0f}")


def test_numbers_that_are_not_finite_are_left_out():
    assert recorded.digits(float("nan")) is None
    assert recorded.digits(float("inf")) is None


def test_shown_samples_include_the_ends():
    samples = [5.0, 1.0, 9.0, *np.linspace(2, 8, 40)]
    chosen = recorded.spread_out(samples)
    assert (len(chosen), chosen[0], chosen[-1]) == (recorded.MOST_SAMPLES, 1.0, 9.0)
    assert recorded.spread_out([3.0, 2.0]) == (2.0, 3.0)
    assert recorded.spread_out(samples, 0) == ()


@pytest.mark.deep
@pytest.mark.parametrize("machines", ["all"], indirect=True)  # another has ends that the fifth digit decides
def test_samples_and_ends_of_times_that_are_packed_can_be_computed_again(machines, rows):
    """As the script of the page does: within half a step, and within four digits."""
    some = [row for row in rows[with_ladder(machines).slug] if row.time and row.rate][:200]
    packed = recorded.columns(some)
    assert {*packed["time_low"], *packed["time_high"]} == {None}
    for place, row in enumerate(some):
        steps, time, rate = (packed[name][place] for name in ("samples", "time", "rate"))
        again = [step * time / recorded.SAMPLE_STEPS for step in steps]
        assert again == pytest.approx(row.samples, abs=0.0031 * row.time.estimate, rel=1e-3)
        if packed["rate_low"][place]:
            ends = time * rate / packed["rate_high"][place], time * rate / packed["rate_low"][place]
            assert ends == pytest.approx((row.time.low, row.time.high), rel=1e-3)


def test_samples_give_way_before_the_page_is_too_large(machines, tmp_path, monkeypatch):
    some = machines[-1:]
    usual = document.write(some, EXPERIMENTS, tmp_path / "usual.html")
    monkeypatch.setattr(document, "LIMIT", usual - 1)
    assert document.write(some, EXPERIMENTS, tmp_path / "smaller.html") < usual
    monkeypatch.setattr(document, "LIMIT", 1000)
    with pytest.raises(HarnessError, match="too large"):
        document.write(some, EXPERIMENTS, tmp_path / "none.html")


def test_the_richest_text_that_is_small_enough_is_taken(monkeypatch):
    sizes = {form: 10 * (len(document.RICHNESS) - place) for place, form in enumerate(document.RICHNESS)}
    for size in sizes.values():
        for limit in (size, size + 9):
            monkeypatch.setattr(document, "LIMIT", limit)
            assert len(document._richest(lambda *asked: "x" * sizes[asked])) == size


def test_the_same_results_give_the_same_file(machines, tmp_path):
    for name in ("one", "two"):
        document.write(machines[-1:], EXPERIMENTS, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_rungs_without_a_measured_peak_show_their_rate_alone(machines, tmp_path):
    some = next(
        own for own in machines if any(cell.experiment == "ladder" and rates.is_peak(cell) for cell in own.cells)
    )
    ladder = [cell for cell in some.cells if cell.experiment == "ladder" and not rates.is_peak(cell)]
    document.write([some._replace(cells=ladder)], EXPERIMENTS, tmp_path / "page.html")
    (summary,) = re.findall(r"<summary><b>1\..*?</summary>", (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "cpu-naive" in summary
    assert "of the peak" not in summary
    assert "GFLOP/s" in summary


def test_texts_of_a_store_are_no_markup(tmp_path):
    store = Store(tmp_path / "planted" / "quick")
    store.append(planted_store.begun())
    hostile = "<img src=x onerror=alert(1)></script>"
    store.append(planted_store.cell(hostile, reference=hostile), machine=planted_store.MACHINE)
    own = Recorded("planted", store.cells(), store.machine(), tmp_path / "planted")
    document.write([own], EXPERIMENTS, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert hostile in column(unpacked(text), "contender")


def test_colours_are_those_of_the_figures_and_turn_on_a_dark_page(page, rows):
    text, _ = page
    made = colours.palette(list(itertools.chain(*rows.values())))
    for backend in ("cpu-simd", "cpu-numpy", "gpu-tuned"):
        light, dark = made[colours.variable(backend)]
        assert light == COLOURS[backend]
        assert f"--{backend}: {light};" in text
        assert f"--{backend}: {dark};" in text
    rungs_of_cpu = [
        made[colours.variable(name)][1]
        for name in ("cpu-naive", "cpu-transposed", "cpu-tiled", "cpu-packed", "cpu-simd")
    ]
    lightness = [sum(int(colour[at : at + 2], 16) for at in (1, 3, 5)) for colour in rungs_of_cpu]
    assert lightness == sorted(lightness)


def test_without_the_extra_it_says_what_to_install(monkeypatch, machines, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(HarnessError, match="pip install jinja2"):
        document.write(machines[-1:], EXPERIMENTS, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_digits_of_an_interval_keep_their_order():
    values = Interval(1.0005, 1.0004, 1.0006)
    assert recorded.digits(values.low) <= recorded.digits(values.estimate) <= recorded.digits(values.high)


def test_the_command_writes_the_file_and_says_how_large_it_is(tmp_path, capsys):
    store = Store(tmp_path / "results" / "planted" / "quick")
    store.append(planted_store.begun())
    store.append(planted_store.cell(), planted_store.cell("b"), machine=planted_store.MACHINE)
    command.page(results=tmp_path / "results", output=tmp_path / "new" / "page.html")
    assert "planted, 2 cores" in (tmp_path / "new" / "page.html").read_text()
    assert "MB)" in capsys.readouterr().out


def test_a_rung_whose_code_is_elsewhere_still_has_its_numbers(tmp_path):
    (tmp_path / "new.py").write_text('"""Head.\n\n    loop 1  i over m    rows\n\nText.\n\n    other  lines\n"""\n')
    assert rungs.function_of(tmp_path / "new.py", ["kernel"]) == ""
    assert rungs.loops_of(tmp_path / "new.py").split() == ["loop", "1", "i", "over", "m,", "rows"]
