"""What a user asks for: a trained run, an estimate, a comparison, a sweep, a sizing, a bound."""
