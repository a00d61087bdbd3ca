"""The HTML page of runs and studies: what a folder says, thinned, drawn in the browser."""
