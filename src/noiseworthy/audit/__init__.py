"""The audit: what an attacker who sees every upload can prove about epsilon, beside what is claimed."""
