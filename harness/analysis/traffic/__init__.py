"""Theory beside measurement: what a nest of loops loads from each memory, and the rate that this allows.

`loads` counts, by formula; `bounds` says what no order of the loops can beat; `model` reads roofs from cells and
predicts. Pure: nothing here measures.
"""
