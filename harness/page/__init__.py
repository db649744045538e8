"""The page to explore: one HTML file with what every machine has measured, without a server and without a network.

May be imported by `cli` and the facade. Imports `report`, `analysis`, `store` and `stats`. Never imports `run` or
`timing`: what it shows comes from the store. Its charts are those of figures (`harness.report.figures.chart`),
drawn by a script in the page. The extra "page" is Jinja2; `results` needs none.
"""
