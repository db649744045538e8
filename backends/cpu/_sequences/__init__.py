"""All steps of sequences in one compiled call: vectors by matrices, with what each step is combined with."""
