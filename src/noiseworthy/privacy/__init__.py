"""Privacy: budgets, sensitivity, noise, exact accounting, calibration and the ledger."""
