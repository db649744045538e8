"""The charts of the page, declared with Altair: their data are put in by the page, when a reader has chosen.

Colours are variables of CSS and text has the colour of the page, so that a chart follows a light or dark scheme.
"""

from __future__ import annotations

from typing import Any

from harness.page import extra

# The dataset that the page fills, and the size of a chart before the page gives it its own width.
DATA, WIDTH, HEIGHT, STRIP = "cells", 600, 300, 130
INK = "currentColor"
# What each chart shows, for those who do not see it.
SUBJECTS = {
    "sizes": "Lines of contenders against size",
    "cases": "Dots of contenders by case",
    "roofline": "Rungs of the ladder below the measured roofs: rate against operations per byte",
    "weak": "Places where it is slow, the worst on top; the same stands in the table below",
    "spread": "Number of cells by how much their times differ between runs",
}
SHAPES = ["circle", "square", "triangle", "diamond"]
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]]
# What is said of a dot below the pointer.
SAID = ("contender", "case", "value", "speed_said", "kernels", "samples_said", "measured", "commit", "remarks")


def all_charts() -> dict[str, dict[str, Any]]:
    """Return the specification of each chart by name, in Vega-Lite."""
    made = {"sizes": sizes(), "cases": cases(), "roofline": roofline(), "weak": weak(), "spread": spread()}
    return {name: {**chart.to_dict(), "config": theme(), "description": SUBJECTS[name]} for name, chart in made.items()}


def theme() -> dict[str, Any]:
    """Return the look of all charts."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": INK,
            "gridOpacity": 0.12,
            "domainColor": INK,
            "tickColor": INK,
        },
        "title": {"color": INK},
        "text": {"color": INK, "fontSize": 12},
        "rule": {"color": INK},
        "tick": {"color": INK},
        "bar": {"color": INK},
    }


def _data() -> Any:
    return extra.altair().Data(name=DATA)


def _tooltip(*fields: str) -> list[Any]:
    alt = extra.altair()
    return [alt.Tooltip(f"{field}:N", title=field.removesuffix("_said")) for field in fields]


def sizes() -> Any:
    """Return a line for each contender against the axis of its experiment, and below it the ratio to the reference.

    Rows have ``x``; ``y`` and ``r`` with ``_low`` and ``_high``; ``colour``, ``variant``, ``key``; ``samples``, a list
    in the unit of y; ``is_last``, ``label_y``; and the texts of `SAID`.
    """
    alt = extra.altair()
    hover = alt.selection_point(name="hover", fields=["key"], on="pointerover", clear="pointerout", empty=False)
    x = alt.X("x:Q", scale=alt.Scale(type="log", nice=False, padding=12), title="n")
    base = alt.Chart(_data()).encode(x=x, color=alt.Color("colour:N", scale=None), detail="contender:N")
    y = {"title": "rate", "scale": alt.Scale(zero=True)}
    r = {"title": "speed over", "scale": alt.Scale(type="log", nice=False, padding=6)}
    samples = base.transform_filter(hover).transform_flatten(["samples"]).mark_tick(thickness=1.5, width=16)
    names = base.transform_filter("datum.is_last").mark_text(align="left", dx=8)
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 3])
    labels = names.encode(alt.Y("label_y:Q"), text="contender:N")
    # What the pointer meets is larger than what is seen. (Vega-Lite's own way, nearest, loses the texts in layers.)
    target = base.mark_point(filled=True, size=500, opacity=0, aria=False).encode(tooltip=_tooltip(*SAID))
    rates = [*_series(base, "y", hover, y), samples.encode(alt.Y("samples:Q")), labels]
    rates.append(target.encode(alt.Y("y:Q", **y)).add_params(hover))
    ratios = [one.encode(alt.Y("one:Q")), *_series(base, "r", hover, r), target.encode(alt.Y("r:Q", **r))]
    top = alt.layer(*rates).properties(width=WIDTH, height=HEIGHT)
    bottom = alt.layer(*ratios).properties(width=WIDTH, height=STRIP)
    return alt.vconcat(top, bottom, spacing=16).resolve_scale(x="shared")


def _series(base: Any, field: str, hover: Any, look: dict[str, Any]) -> list[Any]:
    """Return a band, a line and dots for each contender; the dot below the pointer is larger."""
    alt = extra.altair()
    y, ends = alt.Y(f"{field}:Q", **look), (alt.Y(f"{field}_low:Q", **look), alt.Y2(f"{field}_high:Q"))
    return [
        base.mark_area(opacity=0.16).encode(*ends),
        base.mark_line(strokeWidth=1.8).encode(y, strokeDash=_variant(alt.StrokeDash, DASHES)),
        base.mark_point(filled=True, opacity=1).encode(
            y,
            shape=_variant(alt.Shape, SHAPES),
            size=alt.condition(hover, alt.value(120), alt.value(36)),
        ),
    ]


def _variant(channel: Any, looks: list[Any]) -> Any:
    """Return the channel that tells the variants of one backend apart, which share its colour."""
    scale = extra.altair().Scale(domain=list(range(len(looks))), range=looks)
    return channel("variant:N", legend=None, scale=scale)


def cases() -> Any:
    """Return dots with their intervals, in the ``row`` that each names; data otherwise as of `sizes`."""
    alt = extra.altair()
    base = alt.Chart(_data()).encode(
        y=alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=260, grid=True)),
        color=alt.Color("colour:N", scale=None),
    )
    x = alt.X("y:Q", title="rate", scale=alt.Scale(zero=True))
    interval = base.mark_rule(strokeWidth=1.6).encode(
        x=alt.X("y_low:Q", title="rate", scale=alt.Scale(zero=True)), x2="y_high:Q"
    )
    dots = base.mark_point(filled=True, size=70, opacity=0.9).encode(
        x=x, shape=_variant(alt.Shape, SHAPES), tooltip=_tooltip(*SAID)
    )
    return alt.layer(interval, dots).properties(width=WIDTH)


def roofline() -> Any:
    """Return the rungs below the roofs: rows have ``kind`` "roof" (``x``, ``y``, ``name``) or "rung" (and ``shape``).

    The parameter ``rung`` names the one that is emphasised.
    """
    alt = extra.altair()
    rung = alt.param(name="rung", value="")
    base = alt.Chart(_data()).encode(
        x=alt.X("x:Q", title="operations per byte", scale=alt.Scale(type="log")),
        y=alt.Y("y:Q", title="GFLOP/s", scale=alt.Scale(type="log", nice=False, padding=14)),
    )
    roofs = base.transform_filter("datum.kind == 'roof'")
    lines = roofs.mark_line(strokeWidth=1.6, color=INK).encode(detail="name:N", order="x:Q")
    named = {"begin": {"align": "left", "dy": 14, "dx": 4}, "end": {"align": "right", "dy": -8, "dx": -2}}
    said = [
        roofs.transform_filter(f"datum.named_at == '{at}'").mark_text(**look).encode(text="name:N")
        for at, look in named.items()
    ]
    rungs = base.transform_filter("datum.kind == 'rung'")
    dots = rungs.mark_point(filled=True).encode(
        color=alt.Color("colour:N", scale=None),
        size=alt.condition("datum.name == rung", alt.value(220), alt.value(45)),
        opacity=alt.condition("datum.name == rung", alt.value(1), alt.value(0.55)),
        tooltip=_tooltip("name", "shape", "value"),
    )
    names = rungs.transform_filter("datum.name == rung").mark_text(align="center", dy=18).encode(text="shape:N")
    return alt.layer(lines, *said, dots, names).add_params(rung).properties(width=WIDTH, height=HEIGHT)


def weak() -> Any:
    """Return a dot for each place where ours is slow, the worst on top: ``percent``, ``place``, ``kind``."""
    alt = extra.altair()
    return (
        alt.Chart(_data())
        .mark_point(filled=True, size=60, opacity=0.9)
        .encode(
            x=alt.X("percent:Q", title="% missing", scale=alt.Scale(zero=True)),
            y=alt.Y("place:N", sort=None, title=None, axis=alt.Axis(labelLimit=280, grid=True)),
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("kind:N", legend=alt.Legend(title=None, orient="top", labelColor=INK, symbolFillColor=INK)),
            tooltip=_tooltip("contender", "against", "case", "machine", "experiment", "value"),
        )
        .properties(width=WIDTH)
    )


def spread() -> Any:
    """Return how many cells differ by how much between runs: rows have ``percent``."""
    alt = extra.altair()
    return (
        alt.Chart(_data())
        .mark_bar(opacity=0.75)
        .encode(
            x=alt.X("percent:Q", bin=alt.Bin(step=2), title="slowest run over fastest, %", axis=alt.Axis(format="d")),
            y=alt.Y("count():Q", title="cells"),
        )
        .properties(width=WIDTH, height=160)
    )
