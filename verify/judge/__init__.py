"""Pure judgements: facts and expectations in, a Verdict out."""
