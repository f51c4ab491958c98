"""What DPFL-BCS is held against."""
