"""The table of workloads: readable, legal, sourced, and small where it has to be."""

import json
import math

import pytest

from experiments import workloads
from experiments._parts.peers import installed
from harness import machine, registry
from harness.catalogue import load_all
from harness.experiment import PRESETS
from harness.problem import Problem

OPERATIONS = {"smoke": 0.2e9, "quick": 0.6e9, "full": 60e9}
BYTES = {"smoke": 10e6, "quick": 20e6, "full": 1e9}


def test_names_are_unique_and_rows_complete():
    table = workloads.read()
    assert len({workload.name for workload in table}) == len(table)
    for workload in table:
        assert workload.preset in PRESETS
        assert any(year.isdigit() for year in workload.source.replace(",", " ").split()), workload
        assert workload.note
        assert workload.group


def test_every_group_of_programs_is_there():
    groups = {workload.group for workload in workloads.read()}
    assert groups == {"transformer", "convolution", "tall-skinny", "dynamic programming", "paths"}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_nest_and_stay_within_their_means(preset):
    cases = workloads.cases(preset, machine.detect())
    assert len({case.key for case in cases}) == len(cases)
    larger = {case.axes["workload"] for case in workloads.cases("full", machine.detect())}
    problems = {workload.name: workload.problem for workload in workloads.read()}
    for case in cases:
        json.dumps(case.arguments)
        assert case.axes["workload"] in larger
        problem = problems[case.axes["workload"]]
        assert problem.operations <= OPERATIONS[preset]
        assert problem.bytes_moved <= BYTES[preset]


def test_quick_has_every_group():
    groups = {case.axes["group"] for case in workloads.cases("quick", machine.detect())}
    assert len(groups) == 5


@pytest.mark.parametrize("name", ["workloads", "size_sweep"])
def test_every_library_that_takes_a_product_is_a_contender(name):
    """Who is called the fastest library is the fastest of all, not of those that an experiment happens to have."""
    rivals = [entry for entry in registry.discover() if entry.backend and entry.name.startswith("cpu-")]
    libraries = [entry for entry in rivals if entry.backend.project and installed([entry.name])]
    for case in load_all()[name].cases("full", machine.detect()):
        problem = Problem.from_json(dict(case.arguments["problem"]))
        taking = {entry.name for entry in libraries if entry.backend.declines(problem) is None}
        contenders = {contender.arguments["backend"] for contender in case.contenders}
        assert taking <= contenders
        assert contenders.isdisjoint({entry.name for entry in libraries} - taking), "none that declines it"
        assert case.reference == "cpu-numpy"


def test_convolutions_have_the_operations_of_their_layer():
    """ResNet-50's 3x3 layers cost the same: channels double where the image halves (He et al. 2016, section 3.3)."""
    layers = [w.problem.pairs for w in workloads.read() if w.group == "convolution" and "3x3" in w.name]
    assert len(layers) == 4
    assert len(set(layers)) == 1
    assert math.isclose(layers[0], 56 * 56 * 64 * 64 * 9)
