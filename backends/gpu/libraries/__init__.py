"""Matrix products of GPU libraries, behind the interface of backends."""
