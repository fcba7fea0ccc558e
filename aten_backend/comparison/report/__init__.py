"""The comparison as one HTML file that needs nothing else: no network, no library."""

from aten_backend.comparison.report.page import page as page
