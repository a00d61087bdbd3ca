"""Tables, figures and the HTML page, made from results."""
