"""One call from a study's file to its run folder, many of them side by side, and what folders say."""
