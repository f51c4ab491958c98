"""What is planned for, and what a plan is."""
