"""Reports of a run record: figures, privacy statement, HTML page and tables for the terminal."""
