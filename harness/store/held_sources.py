"""The commits that hold the sources of cells from before schema 3, by the digest that each cell has of its sources.

Until schema 3 a commit was marked `-dirty` for changed results as well, and was not recorded where git was missing. The
digest (`harness.run.provenance.source_digest`) is certain: it equals that of `harness/` and `backends/` in a commit.
"""

HELD_BY = {
    "04cd6ae21507dac7": "8a838f70d7f7",
    "09312034a1f1b646": "63dbf146f28f",
    "0c4cb97288243d2e": "fd91d1de013f",
    "1398a2a050f8e248": "3276cb6eca2e",
    "1e066211da9a8d2c": "1f1790378a29",
    "352767ab53784263": "5b6d6bee4660",
    "37751ca7d60dcf8b": "cdd1a43b137c",
    "44c1b4c0cee5dcd2": "2c9778295915",
    "5d862f3385f2e466": "c5d2b5e70511",
    "65863c5d2d71548f": "f222ac86a814",
    "6ed02768cacfb0f6": "9c67a45a6f79",
    "6f27459a27f6d38f": "a5c814912ff0",
    "8ce12e8f81b05e64": "0f3f063135b9",
    "8d92f4b01e68155e": "149aaca6ccde",
    "aec19bc52cdb3d8c": "a589e45be700",
    "d01aeecee99e653a": "a283f0dd770e",
    "dca5f4c072dda458": "de8e3acfa2ad",
    "e0faf916e7e5c694": "aeea936681f6",
    "e18f440964f8738b": "3fc10382d9b4",
    "eb86b4feee069092": "f8cbe6f95c28",
    "eefd0ca8fc5438ed": "8750abafaf40",
    "f00ecf0566b285bc": "6ebeb75bfcef",
}
