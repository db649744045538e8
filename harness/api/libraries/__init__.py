"""Libraries beside NumPy and CuPy whose arrays the public calls take: one class each, in a table (`table`).

A class says where an array lies, how it is seen as an array of NumPy or of CuPy without a copy, and how a result
becomes one of the library. A library that is not in the table, but speaks DLPack, is a `Library` as it is. None of them
is imported here: a caller with its arrays has loaded it. `views` calls a function with views of its arguments,
`view_products` a product that a GPU remembers with their addresses.
"""

from harness.api.libraries.base import Library, Place, spoken, type_name
from harness.api.libraries.table import check_one_library, library_of, place_of, unreadable

__all__ = ["Library", "Place", "check_one_library", "library_of", "place_of", "spoken", "type_name", "unreadable"]
