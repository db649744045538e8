"""Tasks of experiments on a GPU: ceilings, copies, layouts."""
