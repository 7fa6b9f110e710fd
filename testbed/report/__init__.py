"""Tables, figures and one self-contained HTML page for the records of a run."""
