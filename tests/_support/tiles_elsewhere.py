"""Print the tiles of cpu-simd as for another system: ``python tiles_elsewhere.py TRIPLE PROCESSOR FEATURES``.

A line of JSON for each product: its name, unit, the loop of the tile, and the first bytes of the object file.
"""

import json
import sys

import llvmlite.binding as llvm
from numba.core import registry as compilers

PRODUCTS = (("plus_times", "float64"), ("plus_times", "float32"), ("min_plus", "float32"), ("min_plus", "int32"))


def compile_for(triple, processor, features):
    """Have Numba name another target than this machine's."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    codegen = type(compilers.cpu_target.target_context.codegen())
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, features=features)
    codegen.magic_tuple = lambda _: (triple, processor, features)
    codegen.target_data = machine.target_data
    llvm.get_process_triple = lambda: triple


def main():
    from backends.cpu._ir import functions
    from backends.cpu._simd import kernel_table
    from harness import Problem, registry
    from harness.machine import detect

    objects, assembly_of = [], functions.assembly_of_functions

    def keep_object(emit):
        objects.append(functions._compile("tiles", emit, False))
        return assembly_of(emit)

    kernel_table.assembly_of_functions = keep_object
    backend = registry.find("cpu-simd")
    for semiring, dtype in PRODUCTS:
        plan = backend.plan(Problem(256, 256, 256, semiring, dtype), detect())
        listing = backend.listing(plan)
        facts = {"semiring": semiring, "dtype": dtype, "unit": plan.options["unit"], "mr": plan.blocking.mr}
        facts |= {"nr": plan.blocking.nr, "listing": listing, "object": objects[-1][:20].hex()}
        sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    compile_for(*sys.argv[1:])
    main()
