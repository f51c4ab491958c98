"""Networks of the papers, each a function that makes a `ModelTask`; equal arguments give the same one."""
