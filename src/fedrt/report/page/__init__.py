"""The HTML page of runs and studies, whose charts are drawn in the browser."""
