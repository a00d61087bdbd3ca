"""Tables, figures and progress for people, from results; never plans or trains."""
