"""From records to tables, figures and one self-contained HTML page."""
