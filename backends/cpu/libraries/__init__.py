"""Matrix products of libraries, behind the interface of backends."""
