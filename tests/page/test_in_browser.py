"""The page in headless Chromium: nothing asked, nothing wrong, by keyboard, on a phone, in dark, without scripts."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from urllib.parse import urlencode

import pytest

pytest.importorskip("jinja2")

from harness.catalogue import load_all
from harness.page import cards, document, recorded
from harness.store.store import Store
from tests._support import browser, planted_store

H200 = "intel-r-xeon-r-processor-16-cores-nvidia-h200"

pytestmark = pytest.mark.skipif(browser.find() is None, reason="Chromium is not installed: apt install chromium")


@pytest.fixture(scope="module")
def path(page_file):
    """Return the page of stored results."""
    return page_file


@pytest.fixture(scope="module")
def chromium():
    """Return a browser that all tests share."""
    with browser.running() as running:
        yield running


@contextlib.contextmanager
def opened(chromium, path, width=1280, scheme="light"):
    """Open the page in a window of this width; at the end it must have asked nothing and complained of nothing."""
    chromium.size(width)
    chromium.scheme(scheme)
    chromium.requests.clear()
    chromium.complaints.clear()
    chromium.open(path)
    yield chromium
    assert {request.partition("#")[0] for request in chromium.requests} <= {path.resolve().as_uri()}
    assert chromium.complaints == []


@pytest.fixture
def tab(chromium, path):
    """Return the browser with the page open, as a desktop shows it."""
    with opened(chromium, path) as browser_with_page:
        yield browser_with_page


def see(tab, name):
    """Scroll to an element."""
    tab.value(
        f"document.documentElement.style.scrollBehavior = 'auto', document.getElementById('{name}').scrollIntoView()"
    )


def count(tab, selector):
    """Return how many elements there are."""
    return tab.value(f"document.querySelectorAll({selector!r}).length")


def test_opens_at_once_with_a_chart_and_the_first_rows(tab):
    assert count(tab, "#plot svg") == 1
    assert count(tab, "#cells tbody tr") == 100


def test_every_chart_is_drawn_when_it_is_seen(tab):
    for name in ("roofline", "weak-plot", "spread-plot"):
        see(tab, name)
        tab.until(f"document.querySelector('#{name} svg')")


def test_a_card_has_one_bold_number_at_most(tab):
    bold = tab.value(
        "[...document.querySelectorAll('.card')].map((card) => [...card.querySelectorAll('*')].filter((one) =>"
        " getComputedStyle(one).fontWeight >= 600 && /[0-9]/.test(one.textContent)).length)"
    )
    assert set(bold) == {0, 1}


def test_every_word_of_confidence_has_a_sign_of_its_own(tab):
    signs = tab.value(
        "[...document.querySelectorAll('.words dt')].map((one) => getComputedStyle(one, '::before')).map((style) =>"
        " [style.borderRadius, style.transform, style.backgroundColor, style.backgroundImage].join(' '))"
    )
    assert len(set(signs)) == len(signs) == len(cards.CONFIDENCE)


def test_no_chart_is_empty_where_little_is_measured(chromium, tmp_path):
    store = Store(tmp_path / "planted" / "quick")
    store.append(planted_store.begun())
    store.append(planted_store.cell("naive"), planted_store.cell("simd"), machine=planted_store.MACHINE)
    own = recorded.Recorded("planted", store.cells(), store.machine(), tmp_path / "planted")
    document.write([own], load_all(), tmp_path / "page.html")
    with opened(chromium, tmp_path / "page.html") as tab:
        tab.until("document.documentElement.dataset.drawn")
        tab.value("window.scrollTo(0, document.body.scrollHeight)")
        places = "[...document.querySelectorAll('.plot')]"
        tab.until(f"{places}.every((one) => one.querySelector('svg path'))")
        assert count(tab, ".plot") == 1
        anchors = tab.value("[...document.querySelectorAll('nav a')].map((one) => one.hash)")
        assert all(count(tab, anchor) for anchor in anchors)


def test_the_chart_follows_the_address_and_the_address_the_choice(tab, path):
    state = {"machine": "AMD EPYC, 2 cores", "experiment": "vs_peers", "semiring": "min_plus", "dtype": "float32"}
    tab.open(path, state=urlencode(state))
    assert tab.value("document.forms.choices.elements.semiring.value") == "min_plus"
    assert "cpu-tropical-gemm" in tab.value("document.getElementById('contenders').textContent")
    tab.value(
        "(() => { const one = document.forms.choices.elements.dtype; one.value = 'float64';"
        " one.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )
    assert "dtype=float64" in tab.value("location.hash")
    before = int(tab.value("document.getElementById('said').textContent").split()[0])
    tab.value("document.querySelector('#contenders input').click()")
    tab.until(f"document.getElementById('said').textContent.startsWith('{before - 1} contenders')")
    assert "hide=" in tab.value("location.hash")


def test_all_that_is_chosen_can_be_chosen_by_keyboard(tab):
    tab.value("document.querySelector('nav a:last-child').focus()")
    seen = []
    for _ in range(400):
        tab.press("Tab")
        name = tab.value("document.activeElement.name || document.activeElement.id || document.activeElement.tagName")
        seen.append(name)
        if name == "dtype":
            break
    assert {"machine", "experiment", "dtype"} <= set(seen)  # and the semiring, where there are several
    before = tab.value("document.activeElement.value")
    tab.press("ArrowDown")
    tab.until(f"document.forms.choices.elements.dtype.value !== {before!r}")
    tab.until("location.hash.includes('dtype=')")
    tab.value("document.querySelector('summary').focus()")
    tab.press("Enter")
    assert tab.value("document.querySelector('details').open")


def test_over_a_dot_its_samples_and_kernels_are_told(tab, path):
    tab.open(path, state=urlencode({"machine": "AMD EPYC, 2 cores", "experiment": "vs_peers", "on": "1 thread"}))
    see(tab, "chart")
    place = tab.value(
        "(() => { const box = [...document.querySelectorAll('#plot .dot[aria-label]')]"
        ".find((dot) => dot.getAttribute('aria-label').startsWith('cpu-numpy')).getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    tab.move(*place)
    tab.until("!document.getElementById('tip').hidden")
    said = tab.value("document.getElementById('tip').textContent")
    assert "kernels" in said
    assert "processes" in said
    assert "undefined" not in said


def test_a_rung_that_is_opened_is_emphasised_below_its_roof(tab):
    see(tab, "roofline")
    tab.until("document.querySelector('#roofline svg')")
    tab.value("document.querySelector('details[data-rung=\"cpu-packed\"] summary').click()")
    tab.until("location.hash.includes('rung=cpu-packed')")
    assert count(tab, "details[data-rung][open]") == 1
    large = "[...document.querySelectorAll('#roofline .dot')].find((dot) => dot.outerHTML.includes('scale(1.8)'))"
    assert "cpu-packed" in tab.value(f"{large}.getAttribute('aria-label')")


def test_the_table_filters_sorts_and_copies(tab, machines):
    own = next((own for own in machines if own.slug == H200), machines[0])
    asked = "gpu_ladder gpu-tuned float32" if own.slug == H200 else "ladder cpu-simd"  # each row has a rate
    asked = json.dumps(f'{asked} "{own.name}"')
    tab.value(
        f"(() => {{ const one = document.forms.filter.elements.q; one.value = {asked};"
        " one.dispatchEvent(new Event('input')); })()"
    )
    total = int(tab.value("document.getElementById('found').textContent").split()[0])
    assert 0 < total == count(tab, "#cells tbody tr") < 20
    tab.value("[...document.querySelectorAll('#cells th button')].find((one) => one.textContent === 'rate').click()")
    rates = tab.value(
        "[...document.querySelectorAll('#cells tbody tr')].map((row) => parseFloat(row.cells[5].textContent))"
    )
    assert rates == sorted(rates, reverse=True)
    assert tab.value("document.querySelector('#cells th[aria-sort]').getAttribute('aria-sort')") == "descending"
    lines = copied(tab)
    assert lines[0].startswith("machine,experiment,case,contender,")
    assert len(lines) == total + 1
    times = [{name: float(row[name]) for name in ("time_low", "time", "time_high")} for row in csv.DictReader(lines)]
    assert all(0.5 * one["time"] < one["time_low"] <= one["time"] * 1.001 for one in times), "from those of the rate"
    assert all(0.999 * one["time"] <= one["time_high"] < 2 * one["time"] for one in times)


def copied(tab):
    """Return the lines that the button copies."""
    tab.value("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    tab.value("document.getElementById('copy').click()")
    tab.until("window.copied")
    return tab.value("window.copied").splitlines()


def test_every_number_of_the_table_is_that_of_the_store(tab, machines):
    own = machines[0]
    asked = json.dumps(f'vs_peers "{own.name}"')
    tab.value(
        f"(() => {{ const one = document.forms.filter.elements.q; one.value = {asked};"
        " one.dispatchEvent(new Event('input')); })()"
    )
    seen = list(csv.DictReader(copied(tab)))
    stored = [row for row in recorded.shown(own, load_all()) if row.experiment == "vs_peers"]
    assert len(seen) == len(stored) > 50
    for line, row in zip(seen, stored, strict=True):
        assert (line["case"], line["contender"], line["on"]) == (row.case, row.contender, row.on)
        for name in ("rate", "time", "peak", "ratio"):
            for end, value in zip(("", "_low", "_high"), getattr(row, name) or (None,) * 3, strict=True):
                known = line[name + end] != ""
                assert known == (value is not None and math.isfinite(value)), (line, name)
                assert not known or float(line[name + end]) == pytest.approx(value, rel=2e-3), (line, name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_fits_every_window_and_can_be_read_in_both_schemes(chromium, path, width, scheme):
    with opened(chromium, path, width, scheme) as tab:
        for name in ("weak-plot", "spread-plot"):
            see(tab, name)
            tab.until(f"document.querySelector('#{name} svg')")
        assert tab.value("document.documentElement.scrollWidth") <= width
        red, green, blue = tab.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (max(red, green, blue) < 64) == (scheme == "dark")
        ink = tab.value("getComputedStyle(document.querySelector('#plot svg text')).fill.match(/\\d+/g).map(Number)")
        assert (min(ink) > 160) == (scheme == "dark")


def test_everything_that_can_be_used_has_a_name_and_is_large_enough(tab):
    for tree in [tab.send("Accessibility.getFullAXTree")["nodes"]]:
        roles = {"button", "checkbox", "combobox", "link", "searchbox", "textbox", "table", "region", "group", "image"}
        for node in tree:
            role = node.get("role", {}).get("value")
            if role in roles - {"group", "table"} and not node.get("ignored"):
                assert node.get("name", {}).get("value"), node
    heights = tab.value(
        "[...document.querySelectorAll('select, button, nav a, .foot a, summary, fieldset label')]"
        ".filter((one) => one.offsetParent).map((one) => [one.textContent, one.getBoundingClientRect().height])"
    )
    assert [entry for entry in heights if entry[1] < 43.5] == []


def test_without_scripts_every_cell_can_be_read(chromium, path, machines):
    chromium.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.send("Page.navigate", url=path.resolve().as_uri())
        chromium.until("document.readyState === 'complete' && document.querySelector('noscript table')")
        values = chromium.value(
            "[...document.querySelectorAll('#plain table')].reduce((count, table) => count + ("
            "table.rows[0].cells[1].textContent === 'contender' ? table.rows.length - 1 :"
            "[...table.querySelectorAll('td:not(:first-child)')].filter((one) => one.textContent.trim()).length), 0)"
        )
        said = chromium.value("document.querySelector('header p').textContent")
        assert f"{values:,} cells" in said
        assert chromium.value("document.querySelectorAll('.card').length") > (20 if len(machines) > 4 else 12)
    finally:
        chromium.send("Emulation.setScriptExecutionDisabled", value=False)


def test_a_count_of_flagged_cells_leads_to_them(tab):
    flagged = "#belief .facts a"
    count_of_them = int(tab.value(f"document.querySelector('{flagged}').firstChild.textContent"))
    tab.value(f"document.querySelector('{flagged}').click()")
    tab.until(f"document.getElementById('found').textContent.startsWith('{count_of_them} of')")
