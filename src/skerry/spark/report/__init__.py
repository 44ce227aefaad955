"""The report over the tables of a lake, as figures and as an HTML page.

- `collector`: collects the figures from the tables, with Spark
- `findings`: the content of a report, as values and as values over time
- `page`: the report as an HTML page
- `plots`: plots as SVG
- `style`: the style sheet of the page
"""
