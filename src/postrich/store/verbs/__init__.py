"""What the port's verbs do, whatever the database: SQL is called by its name, rules judge."""
